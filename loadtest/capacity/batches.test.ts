import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { seeded } from '../peers/seeded.ts'
import { callMsOf, callsOf, callsPerSecond, claimsPerCall, repeatsOnlyShare } from './batches.ts'

const near = (found: number, expected: number, share: number) =>
  assert.ok(Math.abs(found - expected) <= expected * share, `${found} is not within ${share} of ${expected}`)

test('an idle gate sends each claim alone, a busy one what arrives during a call, none over 64', () => {
  near(claimsPerCall(1, 10), 1, 0.001)
  near(claimsPerCall(4_000, 10), 40, 0.001)
  // Past 50 ms another goes beside it; past 100 ms two are always in flight.
  near(claimsPerCall(1_000, 80), 50, 0.001)
  near(claimsPerCall(500, 120), 30, 0.001)
  assert.equal(claimsPerCall(1_000_000, 10), 64)
})

/** Group commit as edge/groupCommit.ts does it, on virtual time: random arrivals, a second call in flight when it is full or the first is slow. */
function simulate(perSecond: number, callMs: number, random: () => number): number {
  let [now, calls, claims] = [0, 0, 0]
  let waiting = 0
  let ends: number[] = []
  const lead = (at: number) => {
    const hasPlace = () =>
      ends.length === 0 || (ends.length < 2 && (waiting >= 64 || at - (ends[0]! - callMs) >= 50))
    while (waiting > 0 && hasPlace()) {
      const taken = Math.min(64, waiting)
      waiting -= taken
      calls++
      claims += taken
      ends.push(at + callMs)
    }
  }
  for (let i = 0; i < 20_000; i++) {
    const next = now - (Math.log(1 - random()) * 1_000) / perSecond
    for (;;) {
      const first = Math.min(...ends)
      if (first > next) break
      ends = ends.filter((end) => end !== first)
      lead(first)
    }
    now = next
    waiting++
    lead(now)
  }
  return claims / calls
}

test('the formula is what group commit does: within a fifth of a simulation, from idle to busy', () => {
  for (const perSecond of [20, 100, 300, 600, 1_500, 4_000, 9_000, 20_000])
    near(claimsPerCall(perSecond, 8), simulate(perSecond, 8, seeded(perSecond)), 0.2)
  for (const callMs of [40, 90, 200])
    near(claimsPerCall(400, callMs), simulate(400, callMs, seeded(callMs)), 0.2)
})

test('more claims never make fewer calls', () => {
  const rate = fc.double({ min: 0, max: 1e6, noNaN: true })
  const ms = fc.double({ min: 0.01, max: 1_000, noNaN: true })
  fc.assert(
    fc.property(rate, rate, ms, (a, b, callMs) => {
      assert.ok(callsPerSecond(Math.min(a, b), callMs) <= callsPerSecond(Math.max(a, b), callMs) * (1 + 1e-9))
    }),
  )
})

test('the duration of a call is found again from the batches that it makes', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 5_000 }),
      fc.integer({ min: 2, max: 20 }),
      (perSecond, callMs) => {
        const claims = claimsPerCall(perSecond, callMs)
        fc.pre(claims > 1.05 && claims < 63)
        near(callMsOf(perSecond, claims), callMs, 0.01)
      },
    ),
  )
})

test('at the databases’ cap the number of calls stays and their size and duration grow', () => {
  // 10 lanes of 1,000/s with calls of 4 ms want some 2,500 calls/s; 1,000 are allowed.
  const held = callsOf(10_000, 10, 4, 1_000)
  assert.deepEqual(held, { perSecond: 1_000, claims: 10, ms: 10 })
  assert.deepEqual(callsOf(10_000, 10, 4, 100), { perSecond: 100, claims: 100, ms: 200 })
  const free = callsOf(10_000, 10, 4, 100_000)
  assert.equal(free.ms, 4)
  near(free.perSecond * free.claims, 10_000, 0.001)
})

test('an idle gate’s calls are repetitions as often as its claims are, a busy one’s hardly ever', () => {
  near(repeatsOnlyShare(0.001, 1, 0.3), 0.3, 0.001)
  assert.equal(repeatsOnlyShare(1_000, 8, 0), 0)
  near(repeatsOnlyShare(1_000, 8, 1), 1, 0.001)
  assert.ok(repeatsOnlyShare(4_000, 8, 0.5) < 0.001)
})
