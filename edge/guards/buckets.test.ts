import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { isRateLimit, parseRateLimit, type Rate, type RateLimit, rateOf } from '../../schema/rate.ts'
import { Buckets, waitAt } from './buckets.ts'

const anyLimit: fc.Arbitrary<RateLimit> = fc
  .record({
    count: fc.integer({ min: 1, max: 80 }),
    per_ms: fc.integer({ min: 1, max: 5_000 }),
    burst: fc.option(fc.integer({ min: 1, max: 79 }), { nil: undefined }),
  })
  .filter(isRateLimit)

const waitOf = (buckets: Buckets, key: string, rate: Rate, nowMs: number) =>
  waitAt(buckets.look(buckets.keyOf(key), rate, nowMs), rate, nowMs)
const take = (buckets: Buckets, key: string, rate: Rate, nowMs: number) =>
  buckets.put(buckets.keyOf(key), buckets.look(buckets.keyOf(key), rate, nowMs), rate)

/** Asks at each of these distances in time; the instants at which something passed. */
function passes(limit: RateLimit, gaps: readonly number[]): number[] {
  const buckets = new Buckets(10)
  const rate = rateOf(limit)
  let nowMs = 1_700_000_000_000
  const passed: number[] = []
  for (const gap of gaps) {
    nowMs += gap
    if (waitOf(buckets, 'k', rate, nowMs) > 0) continue
    take(buckets, 'k', rate, nowMs)
    passed.push(nowMs)
  }
  return passed
}

describe('buckets', () => {
  it('never let more than a limit’s count through, in any window, wherever it starts (case-K4)', () => {
    const gaps = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 200 })), { maxLength: 400 })
    fc.assert(
      fc.property(anyLimit, gaps, (limit, all) => {
        const passed = passes(limit, all)
        for (let i = 0; i + limit.count < passed.length; i++)
          assert.ok(passed[i + limit.count]! - passed[i]! >= limit.per_ms)
      }),
    )
  })

  it('give 60 at the end of a minute and 60 at the start of the next no more than 60 passes (case-K4)', () => {
    const limit = parseRateLimit('60/1m')!
    const gaps = [...Array.from({ length: 60 }, () => 0), 1_000, ...Array.from({ length: 59 }, () => 0)]
    const passed = passes(limit, gaps)
    assert.ok(passed.length <= 60)
    assert.ok(passed.length >= 30)
  })

  it('say exactly when the next may pass: not a millisecond before, and surely then', () => {
    const takes = fc.array(fc.integer({ min: 0, max: 300 }), { maxLength: 100 })
    fc.assert(
      fc.property(anyLimit, takes, (limit, gaps) => {
        const buckets = new Buckets(10)
        const rate = rateOf(limit)
        let nowMs = 1_700_000_000_000
        for (const gap of gaps) {
          nowMs += gap
          const wait = waitOf(buckets, 'k', rate, nowMs)
          if (wait > 0) {
            assert.ok(waitOf(buckets, 'k', rate, nowMs + wait - 1) > 0)
            assert.equal(waitOf(buckets, 'k', rate, nowMs + wait), 0)
          } else take(buckets, 'k', rate, nowMs)
        }
      }),
    )
  })

  it('let a user through once a second for as long as it comes once a second', () => {
    const limit = parseRateLimit('1/1s')!
    assert.equal(passes(limit, new Array(50).fill(1_000)).length, 50)
    assert.equal(passes(limit, new Array(50).fill(500)).length, 25)
  })

  it('remember a bounded number of keys, and the latest ones for sure', () => {
    const buckets = new Buckets(100)
    const rate = rateOf({ count: 1, per_ms: 60_000 })
    for (let i = 0; i < 10_000; i++) {
      take(buckets, `k${i}`, rate, 1_000)
      assert.ok(buckets.size <= 100)
      if (i >= 49) assert.ok(waitOf(buckets, `k${i - 49}`, rate, 1_000) > 0)
    }
  })

  it('are not shut by a clock that steps back', () => {
    const buckets = new Buckets(10)
    const rate = rateOf({ count: 1, per_ms: 1_000 })
    take(buckets, 'k', rate, 10_000_000)
    assert.ok(waitOf(buckets, 'k', rate, 0) <= 1_000)
  })
})

describe('limits as text', () => {
  it('are read with their unit and burst', () => {
    assert.deepEqual(parseRateLimit('60/1m'), { count: 60, per_ms: 60_000 })
    assert.deepEqual(parseRateLimit('10/5s:5'), { count: 10, per_ms: 5_000, burst: 5 })
  })

  it('that could not be kept are not read at all', () => {
    for (const text of [
      '',
      '0/1s',
      '5/0s',
      '5/1s:5',
      '5/1s:9',
      '5/1d',
      '-1/1s',
      '5',
      'x/1s',
      '5/1s:0',
      '1e3/1s',
    ])
      assert.equal(parseRateLimit(text), undefined, text)
  })
})
