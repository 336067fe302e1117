import { randomBytesOf } from './globals.ts'

/** Stands for node:crypto in the product's modules while they are simulated: the same, but random by the seed. */
export { createHash, createHmac } from 'node:crypto'

export const randomBytes = (count: number): Buffer => Buffer.from(randomBytesOf(count))

export function randomFillSync<T extends Uint8Array>(bytes: T): T {
  bytes.set(randomBytesOf(bytes.length))
  return bytes
}

export function randomUUID(): string {
  const hex = randomBytes(16).toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
}
