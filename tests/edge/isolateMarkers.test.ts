import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bounds } from '../../edge/bounds.ts'
import type { Outcome } from '../../edge/groupCommit.ts'
import type { LocationCache } from '../../edge/locationCache.ts'
import { SoldOut } from '../../edge/soldOut.ts'
import { UserSet } from '../../edge/userSet.ts'
import type { Decision } from '../../schema/decision.ts'

/**
 * What twoIsolates.test.ts shows with two real ones, for any order of claims, refills and pauses: three isolates with
 * their own markers and one cache, before a bucket whose truth is known, on a clock that the test moves.
 */

const bucket = { campaignId: 'c', bucket: 0 }

class Location {
  nowMs = 1_000_000
  epoch = 1
  remaining = 1
  /** Users with an acceptance, and when they got it. */
  readonly holders = new Map<string, number>()
  /** The last instant at which nothing was left. */
  emptyAtMs = Number.NEGATIVE_INFINITY
  readonly #cached = new Map<string, string>()
  readonly cache: LocationCache = {
    get: async (name) => (this.#cached.has(name) ? new Response(this.#cached.get(name)) : undefined),
    put: async (name, body) => void this.#cached.set(name, String(body)),
  }

  pass(ms: number): void {
    if (this.remaining === 0) this.emptyAtMs = this.nowMs + ms
    this.nowMs += ms
  }

  refill(amount: number): void {
    if (this.remaining === 0) this.emptyAtMs = this.nowMs
    this.epoch++
    this.remaining += amount
  }

  decide(userId: string): Decision {
    if (this.holders.has(userId)) return 'REPLAYED'
    if (this.remaining === 0) return 'SOLD_OUT'
    this.remaining--
    this.holders.set(userId, this.nowMs)
    return 'ACCEPTED'
  }

  holdersAt(epoch: number): UserSet | undefined {
    if (epoch !== this.epoch || this.remaining > 0) return undefined
    const set = new UserSet()
    for (const user of this.holders.keys()) set.add(user)
    return set
  }
}

type Claim = (userId: string) => Promise<Decision | 'from memory'>

function isolateOf(place: Location): Claim {
  const works: Promise<unknown>[] = []
  const lifetime = { waitUntil: (work: Promise<unknown>) => void works.push(work) }
  const soldOut: SoldOut = new SoldOut({
    arbiter: {
      async decide(_, { userId }): Promise<Outcome> {
        const decision = place.decide(userId)
        const { epoch, remaining, nowMs } = place
        const times = { leaseUntilMs: 0, nowMs, startsAtMs: 0, endsAtMs: 0, retryAfterMs: 200 }
        const reply = { epoch, remaining, ...times, verdicts: [{ decision }] }
        soldOut.learn(bucket, reply, nowMs, lifetime)
        return { kind: 'decided', verdict: { decision }, reply }
      },
    },
    holders: { load: async (_, epoch) => place.holdersAt(epoch) },
    cache: place.cache,
    clock: () => place.nowMs,
  })
  return async (userId) => {
    const outcome = await soldOut.decide(bucket, { userId, packed: '' }, lifetime)
    while (works.length > 0) await works.pop()
    return outcome.kind === 'decided' ? outcome.verdict.decision : 'from memory'
  }
}

/** Around the times that matter, so that long stories stay within one marker's life. */
const pauses = fc.constantFrom(0, 20, 130, bounds.soldOutFreshMs, bounds.soldOutHoldsMs)

const step = fc.oneof(
  { weight: 8, arbitrary: fc.record({ at: fc.nat(2), user: fc.nat(5), ms: pauses }) },
  { weight: 1, arbitrary: fc.record({ refill: fc.integer({ min: 1, max: 2 }), ms: pauses }) },
)

test('property: no isolate’s marker closes a refilled bucket for longer than it may hold, nor to who has an older acceptance', async () => {
  let fromMemory = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 80, size: 'max' }), async (story) => {
      const place = new Location()
      const isolates = [isolateOf(place), isolateOf(place), isolateOf(place)]
      for (const each of story) {
        place.pass(each.ms)
        if ('refill' in each) {
          place.refill(each.refill)
          continue
        }
        const user = `user-${each.user}`
        const mayBeClosed = place.nowMs - place.emptyAtMs < bounds.soldOutHoldsMs
        const acceptedAtMs = place.holders.get(user)
        if ((await isolates[each.at]!(user)) !== 'from memory') continue
        fromMemory++
        assert.ok(mayBeClosed, `closed ${place.nowMs - place.emptyAtMs} ms after the refill`)
        // Accepted after a refill by an isolate that knows of it: one that does not yet can't know him either.
        const known = acceptedAtMs !== undefined && place.nowMs - acceptedAtMs >= bounds.soldOutHoldsMs
        assert.ok(!known, `${user} has an acceptance and heard SOLD_OUT from isolate ${each.at}`)
      }
    }),
    { numRuns: 3_000 },
  )
  assert.ok(fromMemory > 1_000, `only ${fromMemory} claims were answered from memory: the test proves little`)
})

test('an isolate takes over no marker of an epoch that it has not seen: it would not know its holders', async () => {
  const place = new Location()
  place.remaining = 0
  const [old, fresh] = [isolateOf(place), isolateOf(place)]
  assert.equal(await old('late'), 'SOLD_OUT')
  place.refill(1)
  assert.equal(await fresh('winner'), 'ACCEPTED')
  assert.equal(await fresh('late'), 'SOLD_OUT')
  for (let look = 0; look < 2; look++) {
    place.pass(bounds.soldOutFreshMs)
    assert.equal(await fresh('late'), 'SOLD_OUT', 'looks, and shares what it saw')
    assert.notEqual(await old('other'), 'from memory')
  }
  place.pass(130)
  assert.equal(await old('winner'), 'REPLAYED')
})
