import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { bounds } from '../../edge/bounds.ts'
import { gateKey } from '../../lua/keys.ts'
import { inspect } from '../../lua/stock.ts'
import { mayBelongTo } from '../../schema/acceptance.ts'
import { limits } from '../../schema/limits.ts'
import { sealClaimToken, unsealReceipt } from '../../schema/tokens.ts'
import { startGateway } from '../../stack/gateway/server.ts'
import { until } from '../../stack/process.ts'
import { HeldStore } from './heldStore.ts'
import { type Answer, type Campaign, World } from './world.ts'

/**
 * Group commit in the worker's runtime, with each call held until the test lets it go. Elsewhere: that no answer is
 * crossed among 22,000 claims (claim.test.ts); deadlines, and a store that refuses, garbles or is away (faults.test.ts);
 * all interleavings without the runtime (edge/groupCommit.test.ts).
 */

const store = new HeldStore()
const agent = new Agent({ maxSockets: Number.POSITIVE_INFINITY })
let world: World
let gateway: Awaited<ReturnType<typeof startGateway>>
before(async () => {
  world = await World.start({ bindings: { UPSTASH_REDIS_REST_URL: await store.start() } })
  const { gatewayToken: token } = world.keys
  gateway = await startGateway({ redisUrl: world.redis.url, token, port: 0, strictKeys: true })
  store.lead(gateway.url)
  // Redis learns the script here, so that each later call is one request.
  const campaign = await world.campaign()
  assert.equal((await claim(campaign, 'first').answer)[0], 202)
  store.calls.length = 0
})
after(async () => {
  agent.destroy()
  await world.stop()
  await gateway.close()
  await store.stop()
})
afterEach(() => {
  store.held.clear()
  store.calls.length = 0
  store.mostOpen = 0
})

type Told = [status: number, body: Answer['body'], replayed: boolean]
interface Sent {
  user: string
  answer: Promise<Told>
  leave(): void
}

interface Extras {
  headers?: Record<string, string>
  /** Sends a chunked body without a byte. */
  chunked?: boolean
}

function claim(campaign: Campaign, user: string, bucket = 0, extras: Extras = {}): Sent {
  const token = sealClaimToken(
    {
      campaignId: campaign.id,
      bucket,
      userId: user,
      deviceHash: 'ABCDEFGH',
      notBeforeMs: 0,
      expiresAtMs: Date.now() + 3_600_000,
      tokenId: user.padStart(9, 'a').slice(-9),
      terms: 'stream',
    },
    world.ring('claimTokenKeys'),
  )
  const headers = { 'Claim-Token': token, 'Idempotency-Key': user, ...extras.headers }
  const { promise, resolve, reject } = Promise.withResolvers<Told>()
  const path = `${world.url}/v1/campaigns/${campaign.id}/claims`
  const sent = request(path, { method: 'POST', agent, headers }, (response) => {
    let text = ''
    response.setEncoding('utf8').on('data', (part: string) => {
      text += part
    })
    const replayed = response.headers['idempotency-replayed'] === 'true'
    response.on('end', () => resolve([response.statusCode!, JSON.parse(text), replayed]))
  })
  sent.on('error', reject)
  if (extras.chunked) sent.flushHeaders()
  sent.end()
  return { user, answer: promise, leave: () => sent.destroy() }
}

/** The answer is this user's own acceptance. */
function assertOwn(user: string, [status, body]: Told): void {
  assert.equal(status, 202, JSON.stringify(body))
  assert.ok(mayBelongTo(body.request_id!, user))
  assert.equal(unsealReceipt(body['receipt'] as string, world.ring('receiptKeys'))?.userId, user)
}

const called = (count: number) =>
  until(() => store.calls.length >= count, `call ${count} never came`, 5_000, 5)

/** Both places taken by calls of one claim each, and one more call of `count` claims: all are held. */
async function heldGroup(campaign: Campaign, count: number) {
  store.held.add(gateKey(campaign.buckets[0]!))
  const first = claim(campaign, 'one')
  await called(1)
  await pause(bounds.callIsSlowMs)
  const second = claim(campaign, 'two')
  await called(2)
  const waiting = Array.from({ length: count }, (_, n) => claim(campaign, `user${n}`))
  await arrived(campaign)
  store.calls[0]!.pass()
  assertOwn('one', await first.answer)
  await called(3)
  const [, other, group] = store.calls
  assert.deepEqual(new Set(group!.users), new Set(waiting.map(({ user }) => user)), 'they share one call')
  return { second, other: other!, waiting, group: group! }
}

/** The gate takes requests in order of arrival: one that came later has been answered. */
async function arrived({ id }: Campaign): Promise<void> {
  for (let n = 0; n < 20; n++) await world.call(`/v1/campaigns/${id}`)
}

test('when the leader’s client leaves, its call goes on: the others have their answers, and its own waits for its key', async () => {
  const campaign = await world.campaign()
  const { waiting, group, other, second } = await heldGroup(campaign, 20)
  const leader = waiting.find(({ user }) => user === group.users[0])!
  leader.leave()
  await assert.rejects(leader.answer)
  group.pass()
  for (const { user, answer } of waiting) if (user !== leader.user) assertOwn(user, await answer)
  store.held.clear()
  other.pass()
  assertOwn('two', await second.answer)
  const again = await claim(campaign, leader.user).answer
  assertOwn(leader.user, again)
  assert.equal(again[2], true)
  assert.equal((await world.bucket(campaign)).accepted, 22)
})

test('when the leader’s call loses its answer, each of its claims is OUTCOME_UNKNOWN and finds its acceptance by its key', async () => {
  const campaign = await world.campaign()
  const { waiting, group, other, second } = await heldGroup(campaign, 20)
  group.loseAnswer()
  for (const { answer } of waiting) {
    const [status, body] = await answer
    assert.deepEqual([status, body.code], [503, 'OUTCOME_UNKNOWN'])
  }
  store.held.clear()
  for (const { user } of waiting) {
    const again = await claim(campaign, user).answer
    assertOwn(user, again)
    assert.equal(again[2], true)
  }
  other.pass()
  assertOwn('two', await second.answer)
  assert.equal((await world.bucket(campaign)).accepted, 22)
})

test('when all clients of those that wait leave, the next to come are decided', async () => {
  const campaign = await world.campaign()
  const { waiting, group, other, second } = await heldGroup(campaign, 5)
  const dead = Array.from({ length: 5 }, (_, n) => claim(campaign, `dead${n}`))
  await arrived(campaign)
  for (const one of [...waiting, ...dead]) {
    one.leave()
    await assert.rejects(one.answer)
  }
  store.held.clear()
  const next = Array.from({ length: 5 }, (_, n) => claim(campaign, `next${n}`))
  group.pass()
  other.pass()
  for (const { user, answer } of next) assertOwn(user, await answer)
  assertOwn('two', await second.answer)
})

test('a claim may wait long for another’s call, also when its own work is over: a body, a login, a limit’s or campaign’s look', async () => {
  const campaign = await world.campaign({ quota: 2_000 })
  store.held.add(gateKey(campaign.buckets[0]!))
  const leaders = [claim(campaign, 'one')]
  await called(1)
  await pause(bounds.callIsSlowMs)
  leaders.push(claim(campaign, 'two'))
  await called(2)
  const kinds: Record<string, Extras> = {
    chunked: { chunked: true, headers: { 'Transfer-Encoding': 'chunked' } },
    login: { headers: { Authorization: `Bearer ${await world.login('login')}` } },
    plain: {},
  }
  const waiting = Object.entries(kinds).map(([user, extras]) => claim(campaign, user, 0, extras))
  // One in `requestsPerLocationCount` asks the location's counter behind its answer.
  for (let n = 0; n < bounds.requestsPerLocationCount + 10; n++) waiting.push(claim(campaign, `many${n}`))
  await arrived(campaign)
  // Longer than all of that takes: whoever the runtime takes for hung has been ended by then.
  await pause(1_000)
  store.held.clear()
  for (const call of store.calls) call.pass()
  for (const { user, answer } of [...leaders, ...waiting]) assertOwn(user, await answer)
})

test('a bucket whose calls hang holds up no other, and no call has claims of two', async () => {
  const campaign = await world.campaign({ bucketCount: 2 })
  const [hanging, other] = campaign.buckets.map(gateKey) as [string, string]
  store.held.add(hanging)
  const stuck = Array.from({ length: 10 }, (_, n) => claim(campaign, `zero${n}`, 0))
  await called(1)
  const free = Array.from({ length: 10 }, (_, n) => claim(campaign, `one${n}`, 1))
  for (const { user, answer } of free) assertOwn(user, await answer)
  store.held.clear()
  for (const call of store.calls) if (call.gate === hanging) call.pass()
  for (const { user, answer } of stuck) assertOwn(user, await answer)
  for (const { gate, users } of store.calls)
    assert.ok(users.every((user) => user.startsWith(gate === other ? 'one' : 'zero')))
})

test('with thousands waiting the queue is bounded: BUSY is told at once and is true, the rest goes in calls of 64, two at a time', async () => {
  const campaign = await world.campaign({ quota: 10_000 })
  const gate = gateKey(campaign.buckets[0]!)
  store.held.add(gate)
  const surplus = 200
  let busy = 0
  const sent = Array.from({ length: limits.claimsWaitingMax + surplus }, (_, n) => claim(campaign, `u${n}`))
  for (const { answer } of sent)
    void answer.then(([status]) => {
      if (status === 503) busy++
    })
  await until(() => busy > 0, 'the queue has no end', 10_000, 5)
  // No call has timed out yet, which comes before any deadline: it was the queue's bound.
  assert.equal(store.calls.length, limits.callsInFlightMax)
  store.held.clear()
  for (const call of [...store.calls]) call.pass()
  const refused: string[] = []
  for (const { user, answer } of sent) {
    const told = await answer
    if (told[0] === 202) assertOwn(user, told)
    else {
      assert.deepEqual([told[0], told[1].code], [503, 'BUSY'])
      assert.ok(told[1].retry_after_ms! > 0)
      refused.push(user)
    }
  }
  for (const user of refused)
    assert.deepEqual(await inspect(world.runner, campaign.buckets[0]!, user), [], 'BUSY, yet accepted')
  assert.equal((await world.bucket(campaign)).accepted, sent.length - refused.length)
  const sizes = store.calls.map(({ users }) => users.length)
  assert.equal(Math.max(...sizes), limits.claimsPerCallMax)
  assert.ok(sizes.filter((size) => size === limits.claimsPerCallMax).length >= 10, sizes.join())
  assert.equal(store.mostOpen, limits.callsInFlightMax)
})
