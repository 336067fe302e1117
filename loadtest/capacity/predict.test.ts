import assert from 'node:assert/strict'
import { test } from 'node:test'
import { roundCosts } from './costs.fixture.ts'
import { durationAt, predict, usPerClaim } from './predict.ts'
import { compare, errorMax } from './validate.ts'

const near = (found: number, expected: number) =>
  assert.ok(Math.abs(found - expected) <= expected * 1e-6, `${found} is not ${expected}`)

const run = {
  seconds: 10,
  claimsPerSecond: 2_000,
  accepted: 10_000,
  repeats: 0,
  soldOut: 0,
  polls: 0,
  tokens: 0,
}

test('a run’s calls, commands and CPU come out as by hand', () => {
  const found = predict(roundCosts, run)
  // Half of what the machine takes: half way between 4 and 12 ms, so 16 claims come during a call.
  const batch = 16 + Math.exp(-16)
  const calls = 10_000 / batch
  near(found.calls, calls)
  // Some 125 entries/s, transactions of 20 ms, two in work: 1.25 entries between two.
  const y = (2_000 / batch) * 0.01
  const drains = calls / (y + Math.exp(-y))
  near(found.commands, calls * 7 + drains * 10 + 100)
  near(found.worker, (10_000 * 100 + calls * 200) / 1e6)
  near(found.core, (10_000 * 20 + drains * 500 + 100_000) / 1e6)
})

test('durations are taken between and beyond the two shares at which they were seen, and never below the calm one’s half', () => {
  const msAt = (share: number) => durationAt(share, roundCosts.local, 'call_ms')
  near(msAt(0.25), 4)
  near(msAt(0.75), 12)
  near(msAt(0.875), 14)
  near(msAt(0), 2)
})

test('repetitions make calls that accept nothing, more of them where calls are small', () => {
  const alone = predict(roundCosts, { ...run, claimsPerSecond: 1, accepted: 5_000, repeats: 5_000 })
  assert.ok(alone.calls < 5_100)
  const together = predict(roundCosts, { ...run, accepted: 5_000, repeats: 5_000 })
  // Of calls with 16 on average, e^-8 are without a first claim, less what never stands empty.
  near(together.calls, (10_000 / (16 + Math.exp(-16))) * (1 - Math.exp(-8) + Math.exp(-16) / 2))
})

test('a claim’s share of the machine has everything in it once', () => {
  near(usPerClaim(roundCosts, 10, 100), 100 + 10 + 5 + 32 + 20 + 50 + 15 + 30)
})

test('unit costs that are wrong by a third are found out by the comparison', () => {
  const wrong = {
    ...roundCosts,
    unit: { ...roundCosts.unit, worker_us_per_claim: 135, worker_us_per_call: 270 },
  }
  const truth = predict(roundCosts, run).worker
  assert.ok(Math.abs(compare('run', 'CPU', predict(wrong, run).worker, truth).error) > errorMax)
  assert.equal(compare('run', 'CPU', truth, truth).error, 0)
  assert.equal(compare('run', 'CPU', 1, 0).error, Number.POSITIVE_INFINITY)
})
