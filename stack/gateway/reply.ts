import { COLON, DOLLAR, decimal, FrameReader, MINUS, PLUS, STAR } from './resp.ts'

/** Redis's own word that a command went well; the one text that Upstash never encodes. */
const OK = 'OK'

/** Whether the frame is an error reply. */
export function isError(frame: Buffer): boolean {
  return frame[0] === MINUS
}

/** The text of an error reply, such as `ERR wrong number of arguments for 'get' command`. */
export function errorText(frame: Buffer): string {
  return frame.toString('utf8', 1, frame.length - 2)
}

/** `{"error":…}` as Upstash writes it. */
export function errorJson(text: string): string {
  return `{"error":${JSON.stringify(text)}}`
}

/** `{"result":…}` or `{"error":…}` for one reply. */
export function answerJson(frame: Buffer, base64: boolean): string {
  return isError(frame) ? errorJson(errorText(frame)) : `{"result":${resultJson(frame, base64)}}`
}

/**
 * The JSON of one reply. Integers keep all their digits, whatever the reader makes of them. With `base64`,
 * texts are encoded byte for byte; without it, bytes that are not UTF-8 become U+FFFD.
 */
export function resultJson(frame: Buffer, base64: boolean): string {
  return new JsonRenderer(frame, base64).render()
}

/** A reply as plain values, for the gateway's own questions to Redis. */
export function replyValue(frame: Buffer): unknown {
  return JSON.parse(resultJson(frame, false))
}

/** The frames of an array reply's items, or undefined for a reply that is not an array. */
export function itemsOf(frame: Buffer): Buffer[] | undefined {
  if (frame[0] !== STAR) return undefined
  return new FrameReader().push(frame.subarray(frame.indexOf('\r\n') + 2))
}

class JsonRenderer {
  readonly #frame: Buffer
  readonly #base64: boolean
  #at = 0

  constructor(frame: Buffer, base64: boolean) {
    this.#frame = frame
    this.#base64 = base64
  }

  /**
   * A status OK stands as it is only where it is the whole result: inside an array the SDK decodes every
   * text.
   */
  render(): string {
    if (this.#frame[0] === PLUS && this.#frame.toString('latin1', 1, this.#frame.length - 2) === OK)
      return `"${OK}"`
    return this.#next()
  }

  #next(): string {
    const frame = this.#frame
    const type = frame[this.#at]
    const start = this.#at + 1
    const end = frame.indexOf('\r\n', start)
    this.#at = end + 2
    if (type === COLON) return frame.toString('latin1', start, end)
    if (type === PLUS || type === MINUS) return this.#text(start, end)
    const length = decimal(frame, start, end)
    if (length < 0) return 'null'
    if (type === DOLLAR) {
      const from = this.#at
      this.#at += length + 2
      return this.#text(from, from + length)
    }
    const items: string[] = []
    for (let i = 0; i < length; i++) items.push(this.#next())
    return `[${items.join(',')}]`
  }

  #text(from: number, to: number): string {
    if (this.#base64) return `"${this.#frame.toString('base64', from, to)}"`
    return JSON.stringify(this.#frame.toString('utf8', from, to))
  }
}
