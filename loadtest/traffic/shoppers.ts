import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Stack } from '../../stack/stack.ts'
import type { HttpClient, Reply } from './client.ts'
import { closedLoop } from './openLoop.ts'

/** A user who is about to press the button: everything was fetched ahead, as a client would. */
export interface Shopper {
  userId: string
  deviceId: string
  idempotencyKey: string
  claimToken: string
}

/** Whoever is told to come again, or hears nothing, does so this often: a machine that stalls refuses for its timeouts. */
const attemptsMax = 8
const againMs = 500

/**
 * Logs `count` distinct users in and fetches a claim token for each through the API.
 * @throws on the first refusal that is final: a load test that starts with fewer users than it says would measure something else.
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
    const request = client.encode('POST', `/v1/campaigns/${campaignId}/claim-tokens`, {
      Authorization: `Bearer ${login}`,
      'Device-Id': deviceId,
    })
    const reply = await insist(client, request)
    if (reply?.status !== 201)
      throw new Error(`claim token of ${userId}: ${reply ? `${reply.status} ${reply.body}` : 'no answer'}`)
    const { claim_token: claimToken } = JSON.parse(reply.body) as { claim_token: string }
    shoppers[i] = { userId, deviceId, idempotencyKey: randomUUID(), claimToken }
    progress(++done)
  })
  return shoppers
}

/** Sends it until the answer is no 503; undefined: there never was one. */
async function insist(client: HttpClient, request: Buffer): Promise<Reply | undefined> {
  for (let attempt = 1; ; attempt++) {
    const reply = await client.send(request).catch(() => undefined)
    if ((reply !== undefined && reply.status !== 503) || attempt === attemptsMax) return reply
    await pause(againMs)
  }
}

export function encodeClaim(client: HttpClient, campaignId: string, shopper: Shopper): Buffer {
  return client.encode('POST', `/v1/campaigns/${campaignId}/claims`, {
    'Claim-Token': shopper.claimToken,
    'Idempotency-Key': shopper.idempotencyKey,
    'Device-Id': shopper.deviceId,
  })
}
