import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { TailPolicy } from '../../schema/rules.ts'
import { splitExactly } from './split.ts'
import { isFinal, type Move, planMoves, type TailView } from './tail.ts'

const stock = fc.record({
  remaining: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 200 })),
  accepted: fc.integer({ min: 0, max: 1_000 }),
})
const view = fc
  .record({
    policy: fc.constantFrom<TailPolicy>('accept', 'rebalance', 'centralise'),
    quota: fc.integer({ min: 1, max: 3_000 }),
    unallocated: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 })),
    buckets: fc.array(stock, { minLength: 1, maxLength: 12 }),
  })
  .map(
    ({ buckets, ...rest }): TailView => ({
      ...rest,
      buckets: buckets.map((one, bucket) => ({ bucket, ...one })),
    }),
  )

const sumOf = (moves: readonly Move[]) => moves.reduce((sum, { amount }) => sum + amount, 0)

test('no plan takes more than a bucket or the campaign has, and each move is a real one', () => {
  fc.assert(
    fc.property(view, (given) => {
      const moves = planMoves(given)
      for (const { from, to, amount } of moves)
        assert.ok(from !== to && Number.isInteger(amount) && amount > 0)
      for (const { bucket, remaining } of given.buckets)
        assert.ok(sumOf(moves.filter(({ from }) => from === bucket)) <= remaining)
      assert.ok(sumOf(moves.filter(({ from }) => from === null)) <= given.unallocated)
    }),
  )
})

test('while anything is left, an empty bucket gets some by and by, whatever the policy but accept', () => {
  fc.assert(
    fc.property(view, fc.nat(), (given, chosen) => {
      fc.pre(given.policy !== 'accept')
      const quota = Math.max(given.quota, given.unallocated)
      let { unallocated } = given
      const buckets = given.buckets.map((one) => ({ ...one }))
      // Everybody comes to one bucket.
      const busy = buckets[chosen % buckets.length]!
      const total = unallocated + buckets.reduce((sum, { remaining }) => sum + remaining, 0)
      let sold = 0
      for (let round = 0; round < 2_000 && sold < total; round++) {
        sold += busy.remaining
        busy.accepted += busy.remaining
        busy.remaining = 0
        for (const { from, to, amount } of planMoves({ ...given, quota, unallocated, buckets })) {
          if (from === null) unallocated -= amount
          else buckets[from]!.remaining -= amount
          if (to === null) unallocated += amount
          else buckets[to]!.remaining += amount
        }
      }
      assert.equal(sold, total)
    }),
  )
})

test('accept leaves stock where it is, but hands out what is unallocated', () => {
  const buckets = [
    { bucket: 0, remaining: 0, accepted: 9 },
    { bucket: 1, remaining: 9, accepted: 0 },
  ]
  assert.deepEqual(planMoves({ policy: 'accept', quota: 18, unallocated: 0, buckets }), [])
  const moves = planMoves({ policy: 'accept', quota: 21, unallocated: 3, buckets })
  assert.deepEqual(moves, [{ from: null, to: 0, amount: 3 }])
})

test('centralise takes everything back once little is left, and hands it out in small portions', () => {
  const buckets = [
    { bucket: 0, remaining: 0, accepted: 90 },
    { bucket: 1, remaining: 6, accepted: 4 },
    { bucket: 2, remaining: 2, accepted: 8 },
  ]
  const given = { policy: 'centralise' as const, quota: 100, buckets }
  assert.deepEqual(planMoves({ ...given, unallocated: 0 }), [
    { from: 1, to: null, amount: 6 },
    { from: 2, to: null, amount: 2 },
  ])
  const emptied = buckets.map((one) => ({ ...one, remaining: 0 }))
  const moves = planMoves({ ...given, buckets: emptied, unallocated: 8 })
  assert.deepEqual(new Set(moves.map(({ amount }) => amount)), new Set([1]))
  assert.equal(moves.length, 3)
})

test('an empty bucket is final by its policy, and never while stock is unknown, unallocated or in transit', () => {
  assert.equal(isFinal('accept', [5, undefined], 0), true)
  assert.equal(isFinal('accept', [0], 1), false)
  for (const policy of ['rebalance', 'centralise'] as const) {
    assert.equal(isFinal(policy, [], 0), true)
    assert.equal(isFinal(policy, [0, 0], 0), true)
    assert.equal(isFinal(policy, [0, 1], 0), false)
    assert.equal(isFinal(policy, [0, undefined], 0), false)
    assert.equal(isFinal(policy, [0, 0], 3), false)
  }
})

test('parts of a whole add up to it and differ by one at most', () => {
  fc.assert(
    fc.property(fc.nat(100_000_000), fc.integer({ min: 1, max: 1024 }), (whole, parts) => {
      const split = splitExactly(whole, parts)
      assert.equal(
        split.reduce((sum, part) => sum + part, 0),
        whole,
      )
      assert.ok(Math.max(...split) - Math.min(...split) <= 1)
    }),
  )
})
