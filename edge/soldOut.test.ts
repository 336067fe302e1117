import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClaimArgs } from '../lua/claim.ts'
import type { Decision } from '../schema/decision.ts'
import { bounds } from './bounds.ts'
import type { Decided } from './groupCommit.ts'
import type { LocationCache } from './locationCache.ts'
import { SoldOut } from './soldOut.ts'
import { UserSet } from './userSet.ts'

const bucket = { campaignId: 'c', bucket: 0 }
/** Of the right form, and signed by nobody. */
const tokenOf = (userId: string, at = 0) => `ct1:k1:c:${at}:1:2:tokentoke:deviceha:s:${userId}:forged`

/** One location: its cache, its arbiter, and a clock that the test moves. */
class Place {
  nowMs = 1_000_000
  epoch = 1
  remaining = 0
  decision: Decision = 'SOLD_OUT'
  holders: string[] = []
  holdersAway = false
  asked: string[] = []
  loads = 0
  readonly #cached = new Map<string, string>()
  readonly #cache: LocationCache = {
    get: async (name) => {
      const text = this.#cached.get(name)
      return text === undefined ? undefined : new Response(text)
    },
    put: async (name, body) => void this.#cached.set(name, String(body)),
  }

  isolateWith() {
    const works: Promise<unknown>[] = []
    const lifetime = { waitUntil: (work: Promise<unknown>) => void works.push(work) }
    const soldOut: SoldOut = new SoldOut({
      arbiter: {
        decide: async (_, args) => {
          const outcome = this.#decide(args)
          soldOut.learn(bucket, outcome.reply, this.nowMs, lifetime)
          return outcome
        },
      },
      holders: { load: () => this.#load() },
      cache: this.#cache,
      clock: () => this.nowMs,
    })
    /** What the user hears, with all work behind the answer done. */
    const claim = async (userId: string): Promise<string> => {
      const outcome = await soldOut.decide(bucket, { userId, packed: '' }, lifetime)
      while (works.length > 0) await works.pop()
      return outcome.kind === 'decided' ? outcome.verdict.decision : `${outcome.kind} here`
    }
    return { claim, soldOut }
  }

  isolate() {
    return this.isolateWith().claim
  }

  #decide({ userId }: ClaimArgs): Decided {
    this.asked.push(userId)
    const decision = this.holders.includes(userId) ? 'REPLAYED' : this.decision
    const { nowMs, epoch, remaining } = this
    const about = {
      leaseUntilMs: 0,
      nowMs,
      startsAtMs: 0,
      endsAtMs: 0,
      retryAfterMs: 200,
      verdicts: [{ decision }],
    }
    const reply = { epoch, remaining, ...about }
    return { kind: 'decided', verdict: { decision }, reply }
  }

  async #load(): Promise<UserSet | undefined> {
    this.loads++
    if (this.holdersAway) return undefined
    const set = new UserSet()
    for (const user of this.holders) set.add(user)
    return set
  }
}

test('after the first SOLD_OUT nobody without an acceptance costs the arbiter anything', async () => {
  const place = new Place()
  const claim = place.isolate()
  assert.equal(await claim('first'), 'SOLD_OUT')
  for (let i = 0; i < 100; i++) assert.equal(await claim(`user ${i}`), 'refused here')
  assert.deepEqual(place.asked, ['first'])
})

test('whoever has an acceptance is always asked for, also while the marker stands', async () => {
  const place = new Place()
  place.holders = ['winner']
  const claim = place.isolate()
  await claim('first')
  assert.equal(await claim('winner'), 'REPLAYED')
  assert.equal(await claim('other'), 'refused here')
})

test('a token is refused unread while the marker is fresh, except of whoever has an acceptance', async () => {
  const place = new Place()
  place.holders = ['winner']
  const { claim, soldOut } = place.isolateWith()
  const refuses = (userId: string, at = 0) => soldOut.refuses('c', tokenOf(userId, at))
  assert.equal(refuses('anyone'), false, 'before anything is known')
  await claim('first')
  assert.equal(refuses('anyone'), true)
  assert.equal(refuses('winner'), false, 'his claim may be a repetition')
  assert.equal(refuses('anyone', 1), false, 'another bucket')
  assert.equal(soldOut.refuses('other', tokenOf('anyone')), false, 'another campaign')
  assert.equal(soldOut.refuses('c', 'nonsense'), false)
  place.nowMs += bounds.soldOutFreshMs
  assert.equal(refuses('anyone'), false, 'one has to look again')
})

test('nobody is refused here before it is known who has acceptances', async () => {
  const place = new Place()
  place.holdersAway = true
  const claim = place.isolate()
  for (let i = 0; i < 5; i++) assert.equal(await claim(`user ${i}`), 'SOLD_OUT')
  assert.equal(place.loads, 1)
  place.holdersAway = false
  place.nowMs += bounds.holdersLoadEveryMs
  await claim('again')
  assert.equal(await claim('next'), 'refused here')
})

test('a claim a while looks again; when its call is lost, the marker ends all the same within a second', async () => {
  const place = new Place()
  const claim = place.isolate()
  await claim('first')
  place.nowMs += bounds.soldOutFreshMs
  assert.equal(await claim('probe'), 'SOLD_OUT')
  assert.equal(await claim('next'), 'refused here')
  place.nowMs += bounds.soldOutHoldsMs
  assert.ok(bounds.soldOutHoldsMs < 1_000)
  assert.equal(await claim('late'), 'SOLD_OUT')
})

test('a refill reopens with the first claim that looks, and ends with a new set of acceptances', async () => {
  const place = new Place()
  const claim = place.isolate()
  await claim('first')
  Object.assign(place, { epoch: 2, remaining: 1, decision: 'ACCEPTED' })
  place.nowMs += bounds.soldOutFreshMs
  assert.equal(await claim('lucky'), 'ACCEPTED')
  Object.assign(place, { remaining: 0, decision: 'SOLD_OUT', holders: ['lucky'] })
  place.nowMs += bounds.holdersLoadEveryMs
  assert.equal(await claim('second'), 'SOLD_OUT')
  assert.equal(await claim('lucky'), 'REPLAYED')
  assert.equal(await claim('third'), 'refused here')
})

test('a campaign that is paused, over or busy is not called sold out', async () => {
  for (const decision of ['PAUSED', 'ENDED', 'VOIDED', 'BUSY', 'NOT_READY'] as const) {
    const place = new Place()
    const claim = place.isolate()
    await claim('first')
    place.decision = decision
    place.nowMs += bounds.soldOutFreshMs
    assert.equal(await claim('probe'), decision)
    assert.equal(await claim('next'), decision)
  }
})

test('isolates of a location look in turn, and what one saw holds no longer for the others', async () => {
  const place = new Place()
  const [one, two] = [place.isolate(), place.isolate()]
  await one('first')
  await two('first')
  place.nowMs += bounds.soldOutFreshMs
  assert.equal(await one('probe'), 'SOLD_OUT')
  place.nowMs += bounds.soldOutFreshMs - 1
  assert.equal(await two('shared'), 'refused here')
  assert.equal(place.asked.length, 3)
  place.nowMs += 1
  assert.equal(await two('probe'), 'SOLD_OUT')
})
