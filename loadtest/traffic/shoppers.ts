import { randomUUID } from 'node:crypto'
import type { Stack } from '../../stack/stack.ts'
import type { HttpClient } from './client.ts'
import { closedLoop } from './openLoop.ts'

/** A user who is about to press the button: everything was fetched ahead, as a client would. */
export interface Shopper {
  userId: string
  deviceId: string
  idempotencyKey: string
  claimToken: string
}

/**
 * Logs `count` distinct users in and fetches a claim token for each through the API.
 * @throws on the first refusal: a load test that starts with fewer users than it says would measure something else.
 */
export async function gatherShoppers(
  stack: Stack,
  client: HttpClient,
  campaignId: string,
  count: number,
  progress: (done: number) => void,
): Promise<Shopper[]> {
  const run = randomUUID().slice(0, 8)
  const shoppers = new Array<Shopper>(count)
  let done = 0
  await closedLoop(count, 64, async (i) => {
    const userId = `shopper-${run}-${i}`
    const deviceId = `device-${run}-${i}`
    const login = await stack.mintLogin({ user: userId })
    const reply = await client.send(
      client.encode('POST', `/v1/campaigns/${campaignId}/claim-tokens`, {
        Authorization: `Bearer ${login}`,
        'Device-Id': deviceId,
      }),
    )
    if (reply.status !== 201) throw new Error(`claim token of ${userId}: ${reply.status} ${reply.body}`)
    const { claim_token: claimToken } = JSON.parse(reply.body) as { claim_token: string }
    shoppers[i] = { userId, deviceId, idempotencyKey: randomUUID(), claimToken }
    progress(++done)
  })
  return shoppers
}

export function encodeClaim(client: HttpClient, campaignId: string, shopper: Shopper): Buffer {
  return client.encode('POST', `/v1/campaigns/${campaignId}/claims`, {
    'Claim-Token': shopper.claimToken,
    'Idempotency-Key': shopper.idempotencyKey,
    'Device-Id': shopper.deviceId,
  })
}
