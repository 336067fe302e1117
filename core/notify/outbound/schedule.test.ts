import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { limits } from '../../../schema/limits.ts'
import { nextAttempt } from './schedule.ts'

const giveUpAtMs = limits.deliveryGiveUpMs

test('attempts come ever later, use the whole day, and end with it', () => {
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { minLength: 1 }),
      (draws) => {
        const times = [0]
        for (let attempts = 1; ; attempts++) {
          const nowMs = times.at(-1)!
          const next = nextAttempt(attempts, { nowMs, giveUpAtMs }, () => draws[attempts % draws.length]!)
          if (next === undefined) break
          assert.ok(next > nowMs && next - nowMs <= limits.deliveryRetryMaxMs)
          times.push(next)
        }
        assert.equal(times.at(-1), giveUpAtMs)
        assert.ok(times.length >= 10 && times.length <= 20, `${times.length} attempts`)
      },
    ),
  )
})

test('it never comes sooner than the receiver asked, nor past the end', () => {
  const at = (retryAfterMs: number) => nextAttempt(1, { nowMs: 0, giveUpAtMs, retryAfterMs })!
  assert.equal(at(600_000), 600_000)
  assert.equal(at(2 * giveUpAtMs), giveUpAtMs)
  assert.ok(at(0) >= limits.deliveryRetryFirstMs / 2)
})
