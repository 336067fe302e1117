/**
 * RESP2, as far as a gateway needs it: commands are encoded once into text, replies are cut into frames but not
 * decoded. A frame is the raw bytes of one whole reply; `reply.ts` turns it into JSON without an intermediate value.
 */

/** One argument of a command: text (sent as UTF-8) or raw bytes. */
export type Argument = string | Buffer

/**
 * Encodes one command as a RESP array of bulk strings.
 * Returns text when all arguments are text, since joining strings of many commands into one write is the cheapest way.
 */
export function encodeCommand(args: readonly Argument[]): string | Buffer {
  let text = `*${args.length}\r\n`
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] as Argument
    if (typeof arg !== 'string') return encodeBinaryCommand(args)
    text += `$${utf8Length(arg)}\r\n${arg}\r\n`
  }
  return text
}

function encodeBinaryCommand(args: readonly Argument[]): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${args.length}\r\n`)]
  for (const arg of args) {
    const bytes = typeof arg === 'string' ? Buffer.from(arg) : arg
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, CRLF)
  }
  return Buffer.concat(parts)
}

const CRLF = Buffer.from('\r\n')

/** Short ASCII text, nearly every argument, is counted here: calling into the runtime would cost more than the loop. */
function utf8Length(text: string): number {
  const length = text.length
  if (length > 64) return Buffer.byteLength(text)
  for (let i = 0; i < length; i++) if (text.charCodeAt(i) > 127) return Buffer.byteLength(text)
  return length
}

const CARRIAGE_RETURN = 13
const PLUS = 43
const MINUS = 45
const COLON = 58
const DOLLAR = 36
const STAR = 42

/** Redis sent something that is not RESP2; the connection can no longer be trusted. */
export class RespProtocolError extends Error {}

/**
 * Cuts the byte stream of a connection into frames.
 * It resumes where it stopped: a reply that arrives in a thousand pieces is still scanned once and copied a constant
 * number of times.
 */
export class FrameReader {
  #store: Buffer = EMPTY
  #length = 0
  #position = 0
  #outstanding = 1

  /** Adds received bytes and returns the frames they complete. Frames may share memory and must not be modified. */
  push(chunk: Buffer): Buffer[] {
    this.#append(chunk)
    const frames: Buffer[] = []
    let start = 0
    while (this.#scanFrame()) {
      frames.push(this.#store.subarray(start, this.#position))
      start = this.#position
      this.#outstanding = 1
    }
    this.#keepFrom(start)
    return frames
  }

  #append(chunk: Buffer): void {
    if (this.#length === 0) {
      this.#store = chunk
      this.#length = chunk.length
      return
    }
    const needed = this.#length + chunk.length
    if (needed > this.#store.length) {
      const grown = Buffer.allocUnsafe(needed * 2)
      this.#store.copy(grown, 0, 0, this.#length)
      this.#store = grown
    }
    chunk.copy(this.#store, this.#length)
    this.#length = needed
  }

  /** Frames already handed out still point into the store, so what is left over moves and is never overwritten. */
  #keepFrom(start: number): void {
    if (start === 0) return
    const rest = this.#length - start
    this.#store = rest === 0 ? EMPTY : Buffer.from(this.#store.subarray(start, this.#length))
    this.#length = rest
    this.#position -= start
  }

  /** Moves on until the current frame is complete (true) or the bytes run out (false). */
  #scanFrame(): boolean {
    while (this.#outstanding > 0) {
      const end = this.#lineEnd()
      if (end < 0) return false
      const type = this.#store[this.#position]
      let next = end + 2
      let opened = 0
      if (type === DOLLAR) {
        const length = decimal(this.#store, this.#position + 1, end)
        if (length >= 0) next += length + 2
        if (next > this.#length) return false
      } else if (type === STAR) {
        opened = Math.max(0, decimal(this.#store, this.#position + 1, end))
      } else if (type !== PLUS && type !== MINUS && type !== COLON) {
        throw new RespProtocolError('Redis sent a reply that is not RESP2')
      }
      this.#position = next
      this.#outstanding += opened - 1
    }
    return true
  }

  #lineEnd(): number {
    const store = this.#store
    for (let i = this.#position; i + 1 < this.#length; i++) if (store[i] === CARRIAGE_RETURN) return i
    return -1
  }
}

const EMPTY = Buffer.alloc(0)

/** Reads the decimal number that stands in `bytes[from, to)`. */
export function decimal(bytes: Buffer, from: number, to: number): number {
  const negative = bytes[from] === MINUS
  let value = 0
  for (let i = negative ? from + 1 : from; i < to; i++) value = value * 10 + ((bytes[i] as number) - 48)
  return negative ? -value : value
}
