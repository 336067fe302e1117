import assert from 'node:assert/strict'
import { test } from 'node:test'
import { perClaimAndCall } from './fit.ts'

test('the shares of claims and calls are found from two runs', () => {
  // 100 µs a claim, 400 µs a call.
  const few = { claims: 500, calls: 500, us: 500 * 100 + 500 * 400 }
  const many = { claims: 6_000, calls: 200, us: 6_000 * 100 + 200 * 400 }
  const { claim, call } = perClaimAndCall(few, many)
  assert.ok(Math.abs(claim - 100) < 1e-6 && Math.abs(call - 400) < 1e-6)
})

test('a share that comes out negative is nothing, and what was measured is still explained', () => {
  assert.deepEqual(
    perClaimAndCall({ claims: 100, calls: 100, us: 100 }, { claims: 1_000, calls: 10, us: 10_000 }),
    {
      claim: 10,
      call: 0,
    },
  )
})
