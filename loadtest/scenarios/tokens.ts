import { createHash, createHmac } from 'node:crypto'
import { bucketOf } from '../../schema/hash.ts'
import { parseKeyring } from '../../schema/sealed.ts'
import { encodeSixbit } from '../../schema/sixbit.ts'
import { sealClaimToken } from '../../schema/tokens.ts'
import type { StackKeys } from '../../stack/keys.ts'

export interface TokenWish {
  campaignId: string
  bucketCount: number
  userId: string
  deviceId: string
  /** `expired`: its time is over; `forged`: its seal is another's. */
  kind: 'genuine' | 'expired' | 'forged'
}

const lifetimeMs = 1_800_000
const longAgoMs = 120_000
const tokenIdChars = 9

/**
 * Makes claim tokens with the stack's own key, as the gate would have issued them: a hundred times quicker than to
 * fetch them, for scenarios that are not about their issue.
 */
export function makeTokens(keys: StackKeys): (wish: TokenWish) => string {
  const ring = parseKeyring(
    'CLAIM_TOKEN_KEYS',
    keys.claimTokenKeys,
    (secret) => (text) => createHmac('sha256', secret).update(text).digest('base64url'),
  )
  let serial = 0
  return ({ campaignId, bucketCount, userId, deviceId, kind }) => {
    const nowMs = Date.now()
    const token = sealClaimToken(
      {
        campaignId,
        bucket: bucketOf(userId, campaignId, bucketCount),
        userId,
        deviceHash: createHash('sha256').update(deviceId).digest('base64url').slice(0, 8),
        notBeforeMs: nowMs - longAgoMs,
        expiresAtMs: kind === 'expired' ? nowMs - longAgoMs / 2 : nowMs + lifetimeMs,
        tokenId: encodeSixbit(serial++, tokenIdChars),
        terms: 'stream',
      },
      ring,
    )
    return kind === 'forged' ? token.slice(0, -4) + (token.endsWith('AAAA') ? 'BBBB' : 'AAAA') : token
  }
}
