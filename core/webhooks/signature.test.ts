import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeSecret, signedHeaders } from './signature.ts'

test('a signature is that of the Standard Webhooks specification’s own example', () => {
  const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
  const headers = signedHeaders([secret], {
    id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    nowMs: 1_614_265_330_999,
    body: '{"test": 2432232314}',
  })
  assert.deepEqual(headers, {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('each valid secret signs, apart by a space; secrets are of the specified length and never alike', () => {
  const secrets = [makeSecret(), makeSecret()]
  for (const secret of secrets) {
    assert.match(secret, /^whsec_/)
    assert.equal(Buffer.from(secret.slice(6), 'base64').length, 32)
  }
  assert.notEqual(secrets[0], secrets[1])
  const of = (some: string[]) =>
    signedHeaders(some, { id: 'evt_1', nowMs: 1000, body: '{}' })['webhook-signature']
  assert.equal(of(secrets), `${of([secrets[0]!])} ${of([secrets[1]!])}`)
})
