import assert from 'node:assert/strict'
import { test } from 'node:test'
import { perClaimAndCall } from './fit.ts'

const near = (found: number, expected: number) =>
  assert.ok(Math.abs(found - expected) < 1e-6 * expected, `${found} is not ${expected}`)

/** 100 µs a claim, 400 µs a call. */
const run = (claims: number, calls: number, noise = 1) => ({
  claims,
  calls,
  us: (claims * 100 + calls * 400) * noise,
})

test('the shares of claims and calls are found from runs with calls of different sizes', () => {
  const { claim, call } = perClaimAndCall([run(500, 500), run(6_000, 200), run(3_000, 900)])
  near(claim, 100)
  near(call, 400)
})

test('runs that were a tenth dearer or cheaper move the shares by about as much', () => {
  const { claim, call } = perClaimAndCall([run(500, 500, 1.1), run(6_000, 200, 0.95), run(3_000, 900, 1.05)])
  assert.ok(Math.abs(claim - 100) < 15 && Math.abs(call - 400) < 80, `${claim}, ${call}`)
})

test('a share that comes out negative is nothing, and what was measured is still explained', () => {
  const { claim, call } = perClaimAndCall([
    { claims: 100, calls: 100, us: 100 },
    { claims: 1_000, calls: 10, us: 10_000 },
  ])
  assert.ok(claim > 0 && call === 0)
})

test('calls of one size can’t be told from their claims: the claims take all', () => {
  const { claim, call } = perClaimAndCall([run(100, 10), run(1_000, 100)])
  near(claim, 140)
  assert.equal(call, 0)
})
