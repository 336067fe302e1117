import { alphabet, sixbitAt, sixbitFromBytes } from '../schema/sixbit.ts'

/** Random six-bit text. Bytes are drawn in bulk: a call into the runtime for each claim costs more than its use. */
export interface RandomText {
  /** So many characters of 6 random bits each. */
  text(chars: number): string
  /** The random part of a request id: 10 characters, 56 bits; of the first only the low two bits count. */
  requestIdPart(): string
}

const poolBytes = 4096

/** @param fill overwrites all bytes with random ones, such as `crypto.getRandomValues`. */
export function randomText(fill: (bytes: Uint8Array<ArrayBuffer>) => void): RandomText {
  const bytes = new Uint8Array(poolBytes)
  let pool = ''
  let at = 0

  function text(chars: number): string {
    if (at + chars > pool.length) {
      fill(bytes)
      pool = sixbitFromBytes(bytes, 0, poolBytes)
      at = 0
    }
    at += chars
    return pool.slice(at - chars, at)
  }

  return {
    text,
    requestIdPart() {
      const part = text(10)
      return alphabet[sixbitAt(part, 0) & 3]! + part.slice(1)
    },
  }
}
