/**
 * Base 64 in ASCII order ("-", digits, upper case, "_", lower case), so that equally long encodings sort like
 * their numbers. All of it is JSON- and URL-safe: Upstash's REST carries arguments as JSON strings, where raw
 * bytes above 0x7f would grow and change.
 */
export const alphabet = '-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz'

const digitValue = new Uint8Array(128).fill(255)
for (let i = 0; i < 64; i++) digitValue[alphabet.charCodeAt(i)] = i

/** Encodes a non-negative safe integer in `width` characters, most significant first. */
export function encodeSixbit(value: number, width: number): string {
  let out = ''
  for (let i = 0; i < width; i++) {
    out = alphabet[value % 64] + out
    value = Math.floor(value / 64)
  }
  return out
}

/** @throws on a character outside the alphabet; the text must stand for less than 2^53. */
export function decodeSixbit(text: string): number {
  let value = 0
  for (let i = 0; i < text.length; i++) value = value * 64 + sixbitAt(text, i)
  return value
}

/** The value 0–63 of one character. */
export function sixbitAt(text: string, index: number): number {
  const value = digitValue[text.charCodeAt(index)]
  if (value === undefined || value === 255) throw new Error(`not six-bit text at ${index}`)
  return value
}

export function isSixbit(text: string): boolean {
  for (let i = 0; i < text.length; i++) {
    const value = digitValue[text.charCodeAt(i)]
    if (value === undefined || value === 255) return false
  }
  return true
}

/** Six bits of each byte: from random bytes, random text. */
export function sixbitFromBytes(bytes: Uint8Array, from: number, width: number): string {
  let out = ''
  for (let i = 0; i < width; i++) out += alphabet[bytes[from + i]! & 63]
  return out
}
