import type { Mac } from '../schema/sealed.ts'
import { hmacSha256, sha256 } from './sha256.ts'

/** The MAC of the signed texts (schema/sealed.ts) under one secret. */
export function macFor(secret: string): Mac {
  return hmacSha256(secret)
}

/** 48 bits of a device id's SHA-256: base64url has the characters of six-bit text (schema/sixbit.ts). */
export function deviceHashOf(deviceId: string): string {
  return sha256(deviceId).slice(0, 8)
}
