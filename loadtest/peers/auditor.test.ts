import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge, sum } from './auditor.ts'

const sound = { quota: 3, promised: ['a', 'b'], coupons: ['a', 'b'], remaining: 1 }

test('a design that kept its word is found without fault', () => {
  assert.deepEqual(judge(sound), { oversold: 0, lost: 0, doubled: 0, stranded: 0 })
})

test('a promise without a coupon is lost, once a user however often they heard yes', () => {
  assert.equal(judge({ ...sound, promised: ['a', 'b', 'c', 'c'], remaining: 1 }).lost, 1)
})

test('coupons beyond the quota are oversold, whatever the design believes to be left', () => {
  assert.equal(judge({ ...sound, coupons: ['a', 'b', 'c', 'd', 'e'], remaining: 2 }).oversold, 2)
})

test('a second coupon of a user is doubled', () => {
  assert.equal(judge({ ...sound, coupons: ['a', 'a', 'a', 'b'], quota: 9, remaining: 5 }).doubled, 1)
})

test('stock that is gone without a coupon is stranded, also where the counter fell below zero', () => {
  assert.equal(judge({ ...sound, remaining: 0 }).stranded, 1)
  assert.equal(judge({ ...sound, remaining: -7 }).stranded, 1)
})

test('a coupon that its user never heard of is no fault', () => {
  assert.deepEqual(judge({ ...sound, promised: ['a'] }), judge(sound))
})

test('faults of several rounds add up', () => {
  const one = judge({ ...sound, promised: ['a', 'b', 'c'] })
  assert.equal(sum([one, one]).lost, 2)
})
