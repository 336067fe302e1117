import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Bindings, parseConfig } from './config.ts'

const secret = 's'.repeat(32)
const complete: Bindings = {
  UPSTASH_REDIS_REST_URL: 'https://redis.example/',
  UPSTASH_REDIS_REST_TOKEN: 'token',
  CORE_URL: 'https://core.example',
  LOGIN_JWKS_URL: 'https://login.example/jwks',
  LOGIN_ISSUER: 'https://login.example',
  LOGIN_AUDIENCE: 'tidegate',
  CLAIM_TOKEN_KEYS: `k1:${secret}`,
  RECEIPT_KEYS: `k1:${secret}`,
  CAMPAIGN_ID_KEYS: `k1:${secret}`,
  EDGE_CORE_KEYS: `k1:${secret}`,
}

test('the configuration is frozen, and pins ES256 unless told otherwise', () => {
  const config = parseConfig(complete)
  assert.ok(Object.isFrozen(config) && Object.isFrozen(config.login))
  assert.equal(config.login.algorithm, 'ES256')
  assert.equal(config.redis.url, 'https://redis.example')
  assert.equal(parseConfig({ ...complete, LOGIN_ALGORITHM: 'EdDSA' }).login.algorithm, 'EdDSA')
})

test('a wrong configuration is refused with a sentence that names what is missing or wrong, and never repeats a value', () => {
  for (const name of Object.keys(complete) as (keyof Bindings)[])
    assert.throws(() => parseConfig({ ...complete, [name]: '' }), new RegExp(name))
  for (const algorithm of ['none', 'HS256', 'es256'])
    assert.throws(() => parseConfig({ ...complete, LOGIN_ALGORITHM: algorithm }), /LOGIN_ALGORITHM/)
  for (const keys of ['short', 'k1:hunter2', `k1:${secret},k1:${secret}`])
    assert.throws(
      () => parseConfig({ ...complete, RECEIPT_KEYS: keys }),
      (error: Error) => error.message.includes('RECEIPT_KEYS') && !error.message.includes('hunter2'),
    )
  assert.throws(() => parseConfig({ ...complete, CORE_URL: 'core.example' }), /CORE_URL/)
})

test('further stores have names, addresses and tokens, or are refused without a word of them', () => {
  assert.equal(parseConfig(complete).stores.size, 0)
  const { stores } = parseConfig({
    ...complete,
    UPSTASH_STORES: '{"two":{"url":"https://two.example/","token":"t"}}',
  })
  assert.deepEqual([...stores], [['two', { url: 'https://two.example', token: 't' }]])
  for (const wrong of [
    'hunter2',
    '{"main":{"url":"https://hunter2","token":"t"}}',
    '{"two":{"url":"hunter2","token":"t"}}',
    '{"two":{"url":"https://hunter2"}}',
    '{"two":null}',
  ])
    assert.throws(
      () => parseConfig({ ...complete, UPSTASH_STORES: wrong }),
      (error: Error) => error.message.includes('UPSTASH_STORES') && !error.message.includes('hunter2'),
    )
})
