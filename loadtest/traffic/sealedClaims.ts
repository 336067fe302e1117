import { createHash, createHmac, randomUUID } from 'node:crypto'
import { type Keyring, parseKeyring } from '../../schema/sealed.ts'
import { sealClaimToken } from '../../schema/tokens.ts'
import type { Stack } from '../../stack/stack.ts'
import type { HttpClient } from './client.ts'

const macFor = (secret: string) => (text: string) =>
  createHmac('sha256', secret).update(text).digest('base64url')

/** The stack's own keys of claim tokens. */
export function claimTokenRing(stack: Stack): Keyring {
  return parseKeyring('CLAIM_TOKEN_KEYS', stack.keys.claimTokenKeys, macFor)
}

export interface SealedClaim {
  readonly userId: string
  readonly request: Buffer
}

/**
 * A claim of each of these users on a campaign of one bucket, with a token as the gate would have issued it: for runs
 * that are not about tokens, and would spend most of their time on them. `series` makes tokens of one user differ.
 */
export function sealedClaims(
  ring: Keyring,
  client: HttpClient,
  campaignId: string,
  userIds: readonly string[],
  series = 0,
): SealedClaim[] {
  const notBeforeMs = Date.now() - 60_000
  const expiresAtMs = Date.now() + 1_800_000
  return userIds.map((userId, i) => {
    const deviceId = `device-${userId}`
    const token = sealClaimToken(
      {
        ...{ campaignId, bucket: 0, userId, terms: 'stream' as const, notBeforeMs, expiresAtMs },
        deviceHash: createHash('sha256').update(deviceId).digest('base64url').slice(0, 8),
        tokenId: (series * 10_000_000 + i).toString(36).padStart(9, '0'),
      },
      ring,
    )
    const headers = { 'Claim-Token': token, 'Idempotency-Key': randomUUID(), 'Device-Id': deviceId }
    return { userId, request: client.encode('POST', `/v1/campaigns/${campaignId}/claims`, headers) }
  })
}
