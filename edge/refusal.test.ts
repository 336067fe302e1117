import assert from 'node:assert/strict'
import { test } from 'node:test'
import { requestIds } from './refusal.ts'

test('the ids of refused requests are unique in an isolate', () => {
  const ids = requestIds('p')
  assert.equal(new Set(Array.from({ length: 1_000 }, () => ids.next())).size, 1_000)
})
