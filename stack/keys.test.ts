import assert from 'node:assert/strict'
import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { LOGIN_AUDIENCE, LOGIN_ISSUER, mintLogin, startIssuer } from './issuer.ts'
import { keepKeys } from './keys.ts'
import { temporaryFolder } from './testing.ts'

test('keys are made once, kept readable by the owner only, and found again; starts that race agree', async () => {
  const file = join(temporaryFolder('keys'), 'deep', 'keys.json')
  const [one, two] = await Promise.all([keepKeys(file), keepKeys(file)])
  assert.deepEqual(one, two)
  assert.deepEqual(await keepKeys(file), one)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  for (const ring of [one.claimTokenKeys, one.receiptKeys, one.campaignIdKeys, one.edgeCoreKeys])
    assert.match(ring, /^k1:[A-Za-z0-9_-]{43}$/)
})

test('a damaged key file is an error that names it, never a silent new set of keys', async () => {
  const file = join(temporaryFolder('keys'), 'keys.json')
  writeFileSync(file, '{"login":')
  await assert.rejects(keepKeys(file), (error: Error) => error.message.includes(file))
})

test('a minted login verifies against the issuer, with user, role and lifetime', async () => {
  const keys = await keepKeys(join(temporaryFolder('keys'), 'keys.json'))
  const issuer = await startIssuer(keys)
  try {
    const token = await mintLogin(keys, { user: 'ann ü', role: 'operator', ttl_s: 60 })
    const { payload } = await jwtVerify(token, createRemoteJWKSet(new URL(issuer.jwksUrl)), {
      issuer: LOGIN_ISSUER,
      audience: LOGIN_AUDIENCE,
      algorithms: ['ES256'],
    })
    assert.deepEqual(
      { sub: payload.sub, role: payload['role'], life: (payload.exp ?? 0) - (payload.iat ?? 0) },
      { sub: 'ann ü', role: 'operator', life: 60 },
    )
    const shopper = await mintLogin(keys, { user: 'bob' })
    assert.equal(
      'role' in (await jwtVerify(shopper, createRemoteJWKSet(new URL(issuer.jwksUrl)))).payload,
      false,
    )
    const published = await (await fetch(issuer.jwksUrl)).text()
    assert.ok(!published.includes(keys.login.privateKey.d ?? '-'))
    assert.equal((await fetch(`${issuer.url}/other`)).status, 404)
  } finally {
    await issuer.stop()
  }
})
