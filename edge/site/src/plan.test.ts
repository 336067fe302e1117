/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { lookMoment, pollDelay, retryDelay, tokenMoment } from './plan.ts'

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
const minute = 60_000

test('property: a retry never comes sooner than asked or than its back-off, and is spread', () => {
  fc.assert(
    fc.property(
      fc.nat(50),
      fc.option(fc.nat(60_000), { nil: undefined }),
      random,
      (attempt, asked, chance) => {
        const delay = retryDelay(attempt, asked, chance)
        assert.ok(delay >= (asked ?? 0) && delay >= 1_000)
        assert.ok(delay <= 1.5 * Math.max(asked ?? 0, 15_000) + 1)
      },
    ),
  )
  assert.ok(retryDelay(3, undefined, 0) > retryDelay(0, undefined, 0))
  assert.notEqual(retryDelay(0, 3_000, 0.1), retryDelay(0, 3_000, 0.9))
})

test('property: a token fetched ahead is fetched in the last minutes, not before tokens are given', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -3_600_000, max: 600_000 }),
      fc.nat(600_000),
      random,
      (now, lead, chance) => {
        const moment = tokenMoment(now, 0, -lead, chance)
        assert.ok(moment >= now)
        if (now >= 0) assert.equal(moment, now)
        else assert.ok(moment >= Math.min(0, Math.max(-5 * minute, -lead)) && moment <= 0, `${moment}`)
      },
    ),
  )
})

test('a crowd’s token requests are spread over the window', () => {
  const moments = Array.from({ length: 100 }, (_, i) => tokenMoment(-30 * minute, 0, -10 * minute, i / 100))
  const perMinute = [5, 4, 3, 2, 1].map((m) => moments.filter((at) => Math.ceil(-at / minute) === m).length)
  for (const count of perMinute) assert.ok(count >= 10 && count <= 30, String(perMinute))
})

test('the one look before the start is in its last minute, and left out when the view is that new', () => {
  assert.equal(lookMoment(-74_000, 0, 0.5), undefined)
  for (const chance of [0, 0.5, 0.99]) {
    const at = lookMoment(-30 * minute, 0, chance)!
    assert.ok(at >= -60_000 && at <= -15_000, String(at))
  }
})

test('polls back off from the server’s hint and stop growing', () => {
  assert.equal(pollDelay(0, 1_000, 0), 1_000)
  assert.ok(pollDelay(5, 1_000, 0) > 3_000)
  assert.ok(pollDelay(50, 1_000, 0.99) <= 22_500)
})
