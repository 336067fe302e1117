import { createHash, createHmac, createSecretKey } from 'node:crypto'
import type { Mac } from '../schema/sealed.ts'

/**
 * HMAC-SHA-256 for the signed texts. node:crypto and not WebCrypto: its calls are synchronous, which costs a
 * claim 4 µs where `crypto.subtle.verify` takes 56 and a turn of the event loop.
 */
export function macFor(secret: string): Mac {
  const key = createSecretKey(secret, 'utf8')
  return (text) => createHmac('sha256', key).update(text).digest('base64url')
}

/** 48 bits of a device id's SHA-256: base64url has the characters of six-bit text (schema/sixbit.ts). */
export function deviceHashOf(deviceId: string): string {
  return createHash('sha256').update(deviceId).digest('base64url').slice(0, 8)
}
