import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FinalClaims } from './finalClaims.ts'

const delivered = (id: string) => ({ request_id: id, status: 'DELIVERED' as const, coupon_id: 'k' })

test('a final answer is kept for its own user, and nobody else hears it (case-J6)', () => {
  const finals = new FinalClaims(10)
  finals.keep('ann', delivered('r1'))
  assert.deepEqual(finals.of('ann', 'r1'), delivered('r1'))
  assert.equal(finals.of('ben', 'r1'), undefined)
})

test('what may still change is never kept', () => {
  const finals = new FinalClaims(10)
  for (const status of ['PROCESSING', 'REVIEW'] as const) {
    finals.keep('ann', { request_id: status, status })
    assert.equal(finals.of('ann', status), undefined)
  }
})

test('memory is bounded: the oldest answers go', () => {
  const finals = new FinalClaims(3)
  for (let i = 0; i < 10; i++) finals.keep('ann', delivered(`r${i}`))
  assert.equal(finals.of('ann', 'r6'), undefined)
  assert.ok(finals.of('ann', 'r7') && finals.of('ann', 'r9'))
})
