import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { inspect } from '../../lua/stock.ts'
import { isRequestId, mayBelongTo } from '../../schema/acceptance.ts'
import { bucketOf } from '../../schema/hash.ts'
import { limits } from '../../schema/limits.ts'
import { openTicket, sealClaimToken, unsealClaimToken, unsealReceipt } from '../../schema/tokens.ts'
import { type Answer, type Campaign, device, World } from './world.ts'

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())

function assertProblem(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text)
  assert.equal(answer.headers.get('Content-Type'), 'application/problem+json')
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  const { body } = answer
  assert.deepEqual([body.code, body.status], [code, status])
  for (const member of ['type', 'title', 'detail', 'request_id'] as const)
    assert.ok(typeof body[member] === 'string' && body[member].length > 0, member)
}

const acceptedAt = async (campaign: Campaign) => (await world.bucket(campaign)).accepted

test('an accepted claim is answered with all that its client needs, and is in the arbiter’s record', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  const answer = await world.claim(campaign.id, { token, key: 'key 1'.replace(' ', '-') })
  assert.equal(answer.status, 202)
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  assert.equal(answer.headers.get('Idempotency-Replayed'), null)
  const { body } = answer
  const requestId = body.request_id as string
  assert.deepEqual(Object.keys(body), [
    'request_id',
    'status',
    'accepted_at',
    'status_url',
    'events_url',
    'poll_after_ms',
    'receipt',
  ])
  assert.equal(body.status, 'ACCEPTED')
  assert.ok(isRequestId(requestId) && mayBelongTo(requestId, 'ann'))
  const receipt = unsealReceipt(body['receipt'] as string, world.ring('receiptKeys'))
  assert.deepEqual(receipt, { campaignId: campaign.id, bucket: 0, requestId, userId: 'ann' })
  assert.match(body['events_url'] as string, new RegExp(`^/v1/claims/${requestId}/events\\?ticket=`))
  const [record] = (await inspect(world.runner, campaign.buckets[0]!, 'ann'))!
  assert.equal(record!.requestId, requestId)
  assert.equal(record!.acceptedAtMs, Date.parse(body['accepted_at'] as string))
  assert.equal(record!.tokenId, unsealClaimToken(token, world.ring('claimTokenKeys'))!.tokenId)
})

test('A4 §15.1-1: one user’s concurrent claims with one key all get one request id', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => world.claim(campaign.id, { token, key: 'k' })),
  )
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([202]))
  assert.equal(new Set(answers.map(({ text }) => text)).size, 1)
  assert.equal(answers.filter(({ headers }) => headers.get('Idempotency-Replayed') === 'true').length, 19)
  assert.equal(await acceptedAt(campaign), 1)
})

test('A4 §15.1-2: one user’s concurrent claims with different keys and tokens win as often as the limit says', async () => {
  for (const perUserLimit of [1, 3]) {
    const campaign = await world.campaign({ perUserLimit })
    const tokens = await Promise.all(Array.from({ length: 12 }, () => world.token(campaign, 'ann')))
    const answers = await Promise.all(
      tokens.map((token, n) => world.claim(campaign.id, { token, key: `key-${n}` })),
    )
    assert.equal(answers.filter(({ status }) => status === 202).length, perUserLimit)
    for (const answer of answers.filter(({ status }) => status !== 202))
      assertProblem(answer, 409, 'LIMIT_REACHED')
    assert.equal(await acceptedAt(campaign), perUserLimit)
  }
})

test('A4 §15.1-3: of 100 users who claim the last coupon at once exactly one gets it', async () => {
  const campaign = await world.campaign({ quota: 1 })
  const tokens = await Promise.all(Array.from({ length: 100 }, (_, n) => world.token(campaign, `user ${n}`)))
  const answers = await Promise.all(
    tokens.map((token, n) => world.claim(campaign.id, { token, key: `key-${n}` })),
  )
  assert.equal(answers.filter(({ status }) => status === 202).length, 1)
  for (const answer of answers.filter(({ status }) => status !== 202)) assertProblem(answer, 409, 'SOLD_OUT')
  const { remaining, accepted } = await world.bucket(campaign)
  assert.deepEqual([remaining, accepted], [0, 1])
})

test('a replay has the first answer’s body byte for byte, also when paused, sold out, ended or cancelled since', async () => {
  const campaign = await world.campaign({ quota: 1 })
  const token = await world.token(campaign, 'ann')
  const first = await world.claim(campaign.id, { token, key: 'k' })
  for (const state of ['ACTIVE', 'PAUSED', 'ENDED', 'VOIDED'] as const) {
    await world.reconfigure(campaign, { state })
    const replay = await world.claim(campaign.id, { token, key: 'k' })
    assert.equal(replay.status, 202, state)
    assert.equal(replay.text, first.text)
    assert.equal(replay.headers.get('Idempotency-Replayed'), 'true')
  }
  const other = await world.askToken(campaign.id, {
    Authorization: `Bearer ${await world.login('ann')}`,
    'Device-Id': device,
  })
  const replay = await world.claim(campaign.id, { token: other.body['claim_token'] as string, key: 'k' })
  assert.equal(replay.text, first.text, 'a new token with the same key finds the same acceptance')
})

test('a token wins once: under another key it is TOKEN_USED', async () => {
  const campaign = await world.campaign({ perUserLimit: 5 })
  const token = await world.token(campaign, 'ann')
  assert.equal((await world.claim(campaign.id, { token, key: 'one' })).status, 202)
  assertProblem(await world.claim(campaign.id, { token, key: 'two' }), 409, 'TOKEN_USED')
  assert.equal(await acceptedAt(campaign), 1)
})

test('case-B4: the same key from another device is IDEMPOTENCY_MISMATCH, and changes nothing', async () => {
  const campaign = await world.campaign({ perUserLimit: 5 })
  const [here, there] = [
    await world.token(campaign, 'ann', 'phone'),
    await world.token(campaign, 'ann', 'tablet'),
  ]
  assert.equal((await world.claim(campaign.id, { token: here, key: 'k' })).status, 202)
  assertProblem(await world.claim(campaign.id, { token: there, key: 'k' }), 422, 'IDEMPOTENCY_MISMATCH')
  assert.equal(await acceptedAt(campaign), 1)
})

test('keys are one user’s own: the same key of two users makes two acceptances', async () => {
  const campaign = await world.campaign()
  for (const user of ['ann', 'bob']) {
    const token = await world.token(campaign, user)
    assert.equal((await world.claim(campaign.id, { token, key: 'k' })).status, 202)
  }
  assert.equal(await acceptedAt(campaign), 2)
})

test('case-A11: before its stock is there a campaign says NOT_READY with a time, never sold out', async () => {
  const campaign = await world.campaign({ primed: false })
  const answer = await world.claim(campaign.id, { token: await world.token(campaign, 'ann'), key: 'k' })
  assertProblem(answer, 503, 'NOT_READY')
  assert.ok(answer.body.retry_after_ms! > 0)
  assert.equal(answer.headers.get('Retry-After'), '1')
})

test('each state of the gate has its own refusal', async () => {
  const cases = [
    ['PAUSED', 503],
    ['ENDED', 410],
    ['VOIDED', 410],
  ] as const
  for (const [state, status] of cases) {
    const campaign = await world.campaign()
    const token = await world.token(campaign, 'ann')
    await world.reconfigure(campaign, { state })
    const answer = await world.claim(campaign.id, { token, key: 'k' })
    assertProblem(answer, status, state)
    assert.equal(answer.body.retry_after_ms !== undefined, state === 'PAUSED')
  }
})

test('before the start the arbiter’s clock decides: NOT_STARTED with starts_at and server_time; then the same token wins', async () => {
  const campaign = await world.campaign({ startsInMs: 5_000 })
  const token = await world.token(campaign, 'ann')
  const early = await world.claim(campaign.id, { token, key: 'k' })
  assertProblem(early, 409, 'NOT_STARTED')
  assert.equal(Date.parse(early.body.starts_at!), campaign.snapshot.starts_at_ms)
  assert.ok(Math.abs(Date.parse(early.body.server_time!) - Date.now()) < 4_000)
  const deadline = Date.now() + 30_000
  let answer = early
  while (answer.status === 409 && Date.now() < deadline) {
    await pause(10)
    answer = await world.claim(campaign.id, { token, key: 'k' })
  }
  assert.equal(answer.status, 202, answer.text)
  assert.ok(Date.parse(answer.body['accepted_at'] as string) >= campaign.snapshot.starts_at_ms)
})

test('after the end the arbiter says ENDED to a token that still lives', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  await world.reconfigure(campaign, { endsAtMs: Date.now() - 1 })
  assertProblem(await world.claim(campaign.id, { token, key: 'k' }), 410, 'ENDED')
})

test('with the lease run out a claim is BUSY with a time to come back', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  await world.endLease(campaign)
  const answer = await world.claim(campaign.id, { token, key: 'k' })
  assertProblem(answer, 503, 'BUSY')
  assert.ok(answer.body.retry_after_ms! > 0)
  assert.ok(Number(answer.headers.get('Retry-After')) >= 1)
})

test('a claim goes to its user’s bucket', async () => {
  const campaign = await world.campaign({ bucketCount: 4 })
  for (let n = 0; n < 12; n++) {
    const user = `user ${n}`
    const token = await world.token(campaign, user)
    assert.equal((await world.claim(campaign.id, { token, key: 'k' })).status, 202)
    const bucket = campaign.buckets[bucketOf(user, campaign.id, 4)]!
    assert.equal((await inspect(world.runner, bucket, user))!.length, 1)
  }
})

test('a login and a device that are sent along are accepted when they are the token’s', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  const headers = { 'Device-Id': device, Authorization: `Bearer ${await world.login('ann')}` }
  assert.equal((await world.claim(campaign.id, { token, key: 'k', headers })).status, 202)
})

test('a chunked body without a byte is no body', async () => {
  const campaign = await world.campaign()
  const token = await world.token(campaign, 'ann')
  const empty = new ReadableStream({ start: (controller) => controller.close() })
  const init = { body: empty, duplex: 'half' } as RequestInit
  assert.equal((await world.claim(campaign.id, { token, key: 'k', init })).status, 202)
})

/** Node's fetch takes longer for a request than the gate does; this one test makes many. */
function quickClaim(agent: Agent, path: string, headers: Record<string, string>): Promise<[number, string]> {
  const { promise, resolve, reject } = Promise.withResolvers<[number, string]>()
  const sent = request(world.url + path, { method: 'POST', agent, headers }, (response) => {
    let text = ''
    response.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    response.on('end', () => resolve([response.statusCode!, text]))
  })
  sent.on('error', reject).end()
  return promise
}

test('group commit: many claims share few calls, no answer is crossed, and the runtime keeps up past its optimiser', async () => {
  const users = 22_000
  const campaign = await world.campaign({ quota: users })
  const ring = world.ring('claimTokenKeys')
  const receipts = world.ring('receiptKeys')
  const tokenOf = (n: number) =>
    sealClaimToken(
      {
        campaignId: campaign.id,
        bucket: 0,
        userId: `user ${n}`,
        deviceHash: 'ABCDEFGH',
        notBeforeMs: 0,
        expiresAtMs: Date.now() + 3_600_000,
        tokenId: n.toString(36).padStart(9, 'a'),
        terms: 'stream',
      },
      ring,
    )
  const agent = new Agent({ keepAlive: true })
  const path = `/v1/campaigns/${campaign.id}/claims`
  let next = 0
  let repeated = 0
  const client = async () => {
    while (next < users) {
      const n = next++
      const headers = { 'Claim-Token': tokenOf(n), 'Idempotency-Key': `key-${n}` }
      let [status, text] = await quickClaim(agent, path, headers)
      // A machine that stalls may outlast some claims' deadlines, never many: then the same key once more.
      while (status === 503 && repeated++ < users / 10) {
        await pause(200)
        ;[status, text] = await quickClaim(agent, path, headers)
      }
      assert.equal(status, 202, text)
      const body = JSON.parse(text) as Answer['body']
      const requestId = body.request_id as string
      const ticket = new URL(body['status_url'] as string, world.url).searchParams.get('ticket')!
      assert.equal(openTicket(ticket, requestId, Date.now(), receipts)?.userId, `user ${n}`)
      assert.equal(unsealReceipt(body['receipt'] as string, receipts)?.userId, `user ${n}`)
      assert.ok(mayBelongTo(requestId, `user ${n}`))
    }
  }
  await Promise.all(Array.from({ length: 500 }, client))
  agent.destroy()
  const { accepted, entries } = await world.bucket(campaign)
  assert.equal(accepted, users)
  assert.ok(entries >= users / limits.claimsPerCallMax)
  assert.ok(entries < users / 10, `${entries} calls for ${users} claims`)
})
