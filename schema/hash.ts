import { encodeSixbit } from './sixbit.ts'

/**
 * A 53-bit non-cryptographic hash (two murmur-style lanes over UTF-16 units; the construction known as cyrb53).
 * Only where a collision harms nobody but its maker: bucket choice, and telling one user's own keys apart.
 */
export function hash53(text: string, seed = 0): number {
  let a = 0xdeadbeef ^ seed
  let b = 0x41c6ce57 ^ seed
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    a = Math.imul(a ^ unit, 2654435761)
    b = Math.imul(b ^ unit, 1597334677)
  }
  a = Math.imul(a ^ (a >>> 16), 2246822507) ^ Math.imul(b ^ (b >>> 13), 3266489909)
  b = Math.imul(b ^ (b >>> 16), 2246822507) ^ Math.imul(a ^ (a >>> 13), 3266489909)
  return 4294967296 * (2097151 & b) + (a >>> 0)
}

/** 54 bits of an idempotency key, as kept in the user's record: compared only with keys of the same user. */
export function keyFingerprint(idempotencyKey: string): string {
  return encodeSixbit(hash53(idempotencyKey), 9)
}

/** 24 bits of what a claim's parameters are (its device): a replay must bring the same (case-B4). */
export function paramsFingerprint(deviceHash: string): string {
  return encodeSixbit(hash53(deviceHash, 1) % 16777216, 4)
}

/**
 * Stable choice of a user's bucket: 0 … bucketCount − 1. `bucketCount` never changes in a campaign's life.
 * Source: A4 §11.1, hash(user, campaign) mod B.
 */
export function bucketOf(userId: string, campaignId: string, bucketCount: number): number {
  return bucketCount === 1 ? 0 : hash53(userId, hash53(campaignId) | 0) % bucketCount
}
