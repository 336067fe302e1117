import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isIdempotencyKey } from './request.ts'

test('an Idempotency-Key has 1 to 128 visible ASCII characters', () => {
  for (const key of ['a', '~'.repeat(128), '!"#$%']) assert.ok(isIdempotencyKey(key), key)
  for (const key of [null, '', 'a b', 'é', 'a\tb', '\x7f', 'a'.repeat(129)])
    assert.ok(!isIdempotencyKey(key), String(key))
})
