import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseGuardConfig } from './config.ts'

const store = { url: 'https://redis.example', token: 't' }

test('without any variable, an address is required, the arbiter’s Redis counts, and Turnstile is not there', () => {
  const config = parseGuardConfig({}, store)
  assert.equal(config.addressRequired, true)
  assert.equal(config.store, store)
  assert.equal(config.turnstile, undefined)
})

test('Turnstile asks Cloudflare unless told otherwise', () => {
  const { turnstile } = parseGuardConfig({ TURNSTILE_SECRET: 's', TURNSTILE_HOSTNAMES: 'a, b,' }, store)
  assert.equal(turnstile?.url, 'https://challenges.cloudflare.com/turnstile/v0/siteverify')
  assert.deepEqual(turnstile?.hostnames, ['a', 'b'])
})

test('a wrong variable is refused with a sentence that names it, and never repeats a secret', () => {
  for (const [bindings, words] of [
    [{ CLIENT_ADDRESS: 'maybe' }, /CLIENT_ADDRESS/],
    [{ LIMITS: 'token.user' }, /LIMITS/],
    [{ LIMITS_REDIS_REST_URL: 'https://x.example' }, /LIMITS_REDIS_REST_TOKEN/],
    [{ LIMITS_REDIS_REST_URL: 'x', LIMITS_REDIS_REST_TOKEN: 'hunter2' }, /LIMITS_REDIS_REST_URL/],
    [{ BLOCKED_NETWORKS: '10.0.0.0/8, example.org' }, /example\.org/],
    [{ TURNSTILE_SECRET: 'hunter2', TURNSTILE_VERIFY_URL: 'x' }, /TURNSTILE_VERIFY_URL/],
  ] as const)
    assert.throws(
      () => parseGuardConfig(bindings, store),
      (error: Error) => words.test(error.message) && !error.message.includes('hunter2'),
    )
})
