import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigurationError, parseEnv } from './env.ts'
import { makeKeyrings } from './keyrings.ts'

const ring = 'k1:0123456789abcdef0123456789abcdef'
const good = {
  DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:5432/tidegate',
  REDIS_URL: 'redis://:hunter2@127.0.0.1:6379',
  LOGIN_JWKS_URL: 'https://login.example/jwks.json',
  LOGIN_ISSUER: 'https://login.example',
  LOGIN_AUDIENCE: 'tidegate',
  CLAIM_TOKEN_KEYS: ring,
  RECEIPT_KEYS: ring,
  CAMPAIGN_ID_KEYS: ring,
  EDGE_CORE_KEYS: ring,
}

test('the environment is read once into a frozen value, with defaults that are safe', () => {
  const env = parseEnv(good)
  assert.deepEqual(
    [env.host, env.port, env.login.algorithm, env.databasePrepare, env.logLevel, env.endWithParent],
    ['127.0.0.1', 0, 'ES256', true, 'info', false],
  )
  assert.ok(Object.isFrozen(env) && Object.isFrozen(env.login) && Object.isFrozen(env.keys))
  const other = parseEnv({ ...good, CORE_PORT: '8080', DATABASE_PREPARE: 'false', TIDEGATE_PARENT: '1' })
  assert.deepEqual([other.port, other.databasePrepare, other.endWithParent], [8080, false, true])
})

test('a Redis of several addresses is a cluster, and further stores have names', () => {
  assert.deepEqual(parseEnv(good).stores, [{ name: 'main', urls: [good.REDIS_URL] }])
  const cluster = 'redis://127.0.0.1:7000,redis://127.0.0.1:7001'
  const { stores } = parseEnv({
    ...good,
    REDIS_URL: cluster,
    REDIS_STORES: JSON.stringify({ two: 'rediss://two:6379', big: cluster }),
  })
  assert.deepEqual(stores, [
    { name: 'main', urls: cluster.split(',') },
    { name: 'two', urls: ['rediss://two:6379'] },
    { name: 'big', urls: cluster.split(',') },
  ])
  for (const wrong of [
    '[]x',
    '{"main":"redis://a"}',
    '{"Two":"redis://a"}',
    '{"two":"http://hunter2"}',
    '{"two":5}',
  ])
    assert.throws(
      () => parseEnv({ ...good, REDIS_STORES: wrong }),
      (error: Error) => /^REDIS_STORES: give JSON/m.test(error.message) && !error.message.includes('hunter2'),
    )
})

test('every fault names its variable and the cure, all at once, and no value', () => {
  const faults: Record<string, string> = {
    DATABASE_URL: 'mysql://hunter2',
    REDIS_URL: 'hunter2',
    CORE_PORT: 'hunter2',
    LOGIN_ALGORITHM: 'none',
    LOG_LEVEL: 'hunter2',
    DATABASE_PREPARE: 'hunter2',
    LOGIN_ISSUER: '',
  }
  assert.throws(
    () => parseEnv({ ...good, ...faults }),
    (error: Error) => {
      assert.ok(error instanceof ConfigurationError)
      for (const name of Object.keys(faults))
        assert.match(error.message, new RegExp(`^${name}: .*give `, 'm'))
      assert.doesNotMatch(error.message, /hunter2/)
      return true
    },
  )
})

test('a malformed key ring names its variable and never the secret', () => {
  for (const spec of [
    'hunter2hunter2hunter2hunter2hunter2',
    'k1:hunter2',
    `${ring},k1:hunter2-hunter2-hunter2-hunter2-hunter2`,
  ])
    assert.throws(
      () => makeKeyrings(parseEnv({ ...good, EDGE_CORE_KEYS: spec }).keys),
      (error: Error) =>
        error instanceof ConfigurationError &&
        /^EDGE_CORE_KEYS/.test(error.message) &&
        !/hunter2/.test(error.message),
    )
})

test('Web Push needs both its key and its subject, or neither; deliveries go nowhere private by default', () => {
  const VAPID_PRIVATE_KEY = `${'A'.repeat(42)}E`
  const VAPID_SUBJECT = 'mailto:ops@shop.example'
  assert.equal(parseEnv(good).vapid, undefined)
  assert.equal(parseEnv(good).outboundInsecure, false)
  const both = parseEnv({ ...good, VAPID_PRIVATE_KEY, VAPID_SUBJECT })
  assert.deepEqual(both.vapid, { privateKey: VAPID_PRIVATE_KEY, subject: VAPID_SUBJECT })
  assert.throws(
    () => parseEnv({ ...good, VAPID_PRIVATE_KEY }),
    /^ConfigurationError: VAPID_SUBJECT: .*give /m,
  )
  assert.throws(
    () => parseEnv({ ...good, VAPID_SUBJECT }),
    /^ConfigurationError: VAPID_PRIVATE_KEY: .*give /m,
  )
  assert.throws(() => parseEnv({ ...good, VAPID_PRIVATE_KEY: 'x', VAPID_SUBJECT: 'ops' }), /give .*\n.*give /)
})
