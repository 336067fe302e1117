import { createHash, randomUUID } from 'node:crypto'
import { sealClaimToken } from '../../../schema/tokens.ts'
import type { HttpClient } from '../../traffic/client.ts'
import { closedLoop } from '../../traffic/openLoop.ts'
import type { Front } from './front.ts'

let serial = 0

/** Claims of as many users, each with a genuine token, as the gate would have issued them. */
export function claims(front: Front, client: HttpClient, campaignId: string, count: number): Buffer[] {
  const expiresAtMs = Date.now() + 1_800_000
  return Array.from({ length: count }, () => {
    const n = ++serial
    const deviceId = `device-${n}`
    const token = sealClaimToken(
      {
        campaignId,
        bucket: 0,
        userId: `user-${String(n).padStart(15, '0')}`,
        deviceHash: createHash('sha256').update(deviceId).digest('base64url').slice(0, 8),
        notBeforeMs: Date.now() - 60_000,
        expiresAtMs,
        tokenId: n.toString(36).padStart(9, '0'),
        terms: 'stream',
      },
      front.ring,
    )
    return client.encode('POST', `/v1/campaigns/${campaignId}/claims`, {
      'Claim-Token': token,
      'Idempotency-Key': randomUUID(),
      'Device-Id': deviceId,
    })
  })
}

/** Requests for claim tokens, each with a login that the gate has not seen. */
export async function tokenRequests(
  front: Front,
  client: HttpClient,
  campaignId: string,
  count: number,
): Promise<Buffer[]> {
  const requests = new Array<Buffer>(count)
  await closedLoop(count, 16, async (i) => {
    const n = ++serial
    const login = await front.stack.mintLogin({ user: `user-${n}` })
    const headers = { Authorization: `Bearer ${login}`, 'Device-Id': `device-${n}` }
    requests[i] = client.encode('POST', `/v1/campaigns/${campaignId}/claim-tokens`, headers)
  })
  return requests
}
