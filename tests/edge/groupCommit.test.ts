import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { bounds } from '../../edge/bounds.ts'
import { HttpClient, type Reply } from '../../loadtest/traffic/client.ts'
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
  forget()
})

/** Holds nothing any more, and lets go what it held. */
function letGo(): void {
  store.held.clear()
  for (const call of [...store.calls]) call.pass()
}

function forget(): void {
  store.calls.length = 0
  store.mostOpen = 0
}

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

function headersOf(campaign: Campaign, user: string, bucket = 0): Record<string, string> {
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
  return { 'Claim-Token': token, 'Idempotency-Key': user }
}

function claim(campaign: Campaign, user: string, bucket = 0, extras: Extras = {}): Sent {
  const headers = { ...headersOf(campaign, user, bucket), ...extras.headers }
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
  until(() => store.calls.length >= count, `call ${count} never came`, 20_000, 5)

/**
 * What is held must be let go before it times out, so a try that this machine was too slow for says nothing: it is
 * made again, in a campaign of its own.
 * @param tryOnce undefined when it took too long
 */
async function inTime<T>(tryOnce: (campaign: Campaign) => Promise<T | undefined>, quota = 100): Promise<T> {
  for (let tries = 0; tries < 6; tries++) {
    const result = await tryOnce(await world.campaign({ quota }))
    if (result !== undefined) return result
    letGo()
    // Whatever is still under way has ended by then, for better or worse.
    await pause(limits.claimDeadlineMs)
    forget()
  }
  throw new Error('this machine is too busy: no try was quick enough to mean anything')
}

/** Both places taken by calls of one claim each, and one more call of `count` claims: all are held. */
const heldGroup = (count: number) =>
  inTime(async (campaign) => {
    const began = performance.now()
    store.held.add(gateKey(campaign.buckets[0]!))
    const first = claim(campaign, 'one')
    await called(1)
    await pause(bounds.callIsSlowMs)
    const second = claim(campaign, 'two')
    await called(2)
    const waiting = Array.from({ length: count }, (_, n) => claim(campaign, `user${n}`))
    await arrived(campaign)
    store.calls[0]!.pass()
    const told = await first.answer
    await called(3)
    // What is left of the calls' time is for the test itself.
    if (performance.now() - began > limits.arbiterCallTimeoutMs / 2) {
      for (const { answer } of [second, ...waiting]) void answer.catch(() => undefined)
      return undefined
    }
    assertOwn('one', told)
    const [, other, group] = store.calls
    assert.deepEqual(new Set(group!.users), new Set(waiting.map(({ user }) => user)), 'they share one call')
    return { campaign, second, other: other!, waiting, group: group! }
  })

/** The gate takes requests in order of arrival: one that came later has been answered. */
async function arrived({ id }: Campaign): Promise<void> {
  for (let n = 0; n < 20; n++) await world.call(`/v1/campaigns/${id}`)
}

test('when the leader’s client leaves, its call goes on: the others have their answers, and its own waits for its key', async () => {
  const { campaign, waiting, group, other, second } = await heldGroup(20)
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
  const { campaign, waiting, group, other, second } = await heldGroup(20)
  group.loseAnswer()
  other.pass()
  assertOwn('two', await second.answer)
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
  assert.equal((await world.bucket(campaign)).accepted, 22)
})

test('when all clients of those that wait leave, the next to come are decided', async () => {
  const { campaign, waiting, group, other, second } = await heldGroup(5)
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
  const kinds: Record<string, Extras> = {
    chunked: { chunked: true, headers: { 'Transfer-Encoding': 'chunked' } },
    login: { headers: { Authorization: `Bearer ${await world.login('login')}` } },
    plain: {},
  }
  const waiting = 20
  await inTime(async (campaign) => {
    // One in `requestsPerLocationCount` asks the location's counter behind its answer: let it be one that waits.
    for (let n = 10; n < bounds.requestsPerLocationCount; ) {
      const some = Array.from({ length: Math.min(50, bounds.requestsPerLocationCount - n) }, () => n++)
      await Promise.all(some.map((each) => claim(campaign, `before${each}`).answer))
    }
    forget()
    const began = performance.now()
    store.held.add(gateKey(campaign.buckets[0]!))
    const all = [claim(campaign, 'one')]
    await called(1)
    await pause(bounds.callIsSlowMs)
    all.push(claim(campaign, 'two'))
    await called(2)
    for (const [user, extras] of Object.entries(kinds)) all.push(claim(campaign, user, 0, extras))
    for (let n = 0; n < waiting; n++) all.push(claim(campaign, `many${n}`))
    // Longer than all of that takes: whoever the runtime takes for hung has been ended by then.
    await pause(1_000)
    letGo()
    const told = await Promise.all(all.map(({ answer }) => answer))
    if (performance.now() - began > limits.arbiterCallTimeoutMs) return undefined
    for (const [n, { user }] of all.entries()) assertOwn(user, told[n]!)
    return true
  }, 2_000)
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

/** An answer of the quick client, as the others are told. */
function toldBy({ status, head, body }: Reply): Told {
  return [status, JSON.parse(body), /^idempotency-replayed: true/im.test(head)]
}

test('with thousands waiting the queue is bounded: BUSY is told at once and is true, the rest goes in calls of 64, two at a time', async () => {
  const surplus = 200
  const count = limits.claimsWaitingMax + surplus
  // The queue has to be full before the first call times out: connections and requests are made beforehand.
  const quick = new HttpClient(world.url, count)
  try {
    await Promise.all(Array.from({ length: count }, () => quick.send(quick.encode('GET', '/v1/none'))))
    await inTime(async (campaign) => {
      const gate = gateKey(campaign.buckets[0]!)
      const users = Array.from({ length: count }, (_, n) => `u${n}`)
      const path = `/v1/campaigns/${campaign.id}/claims`
      const requests = users.map((user) => quick.encode('POST', path, headersOf(campaign, user)))
      store.held.add(gate)
      let busy = 0
      const began = performance.now()
      const answers = requests.map(async (request) => {
        const told = toldBy(await quick.send(request))
        if (told[0] === 503) busy++
        return told
      })
      await until(() => busy > 0, 'the queue has no end', 20_000, 5)
      const calls = store.calls.length
      const fullAfterMs = performance.now() - began
      letGo()
      const told = await Promise.all(answers)
      const tookMs = performance.now() - began
      const accepted = users.filter((_, n) => told[n]![0] === 202)
      const refused = users.filter((_, n) => told[n]![1].code === 'BUSY')
      for (const user of refused)
        assert.deepEqual(await inspect(world.runner, campaign.buckets[0]!, user), [], 'BUSY, yet accepted')
      const isLate = tookMs > limits.claimDeadlineMs
      const sizes = store.calls.map(({ users }) => users.length)
      const full = sizes.filter((size) => size === limits.claimsPerCallMax).length
      if (fullAfterMs > limits.arbiterCallTimeoutMs || (isLate && full < 10)) return undefined
      // No call has timed out yet, which comes before any deadline: it was the queue's bound.
      assert.equal(calls, limits.callsInFlightMax)
      // Those whose deadline a slow machine has outlasted are the only ones that may not know.
      const codes = isLate ? ['BUSY', 'OUTCOME_UNKNOWN'] : ['BUSY']
      for (const [n, [status, body]] of told.entries()) {
        if (status === 202) assertOwn(users[n]!, told[n]!)
        else assert.ok(codes.includes(body.code!) && body.retry_after_ms! > 0, JSON.stringify(body))
      }
      const surely = accepted.length
      const unknown = count - surely - refused.length
      const inRecord = (await world.bucket(campaign)).accepted
      assert.ok(inRecord >= surely && inRecord <= surely + unknown, `${inRecord}, ${surely} + ${unknown}`)
      assert.equal(Math.max(...sizes), limits.claimsPerCallMax)
      assert.ok(full >= 10, sizes.join())
      assert.equal(store.mostOpen, limits.callsInFlightMax)
      return true
    }, 10_000)
  } finally {
    quick.close()
  }
})
