import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { Hono } from 'hono'
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose'
import { parseKeyring } from '../../schema/sealed.ts'
import { sealAssertion } from '../../schema/tokens.ts'
import { makeKeyrings } from '../keyrings.ts'
import { Refused } from '../refusal.ts'
import { type Identity, makeIdentity } from './identity.ts'

const secret = 'k1:0123456789abcdef0123456789abcdef'
const { edgeCore } = makeKeyrings({
  claimToken: secret,
  receipt: secret,
  campaignId: secret,
  edgeCore: secret,
})
const now = Date.now()
type Pair = Awaited<ReturnType<typeof generateKeyPair>>
let pair: Pair
let other: Pair
let identity: Identity
let away: Identity
const server = createServer()

before(async () => {
  pair = await generateKeyPair('ES256')
  other = await generateKeyPair('ES256')
  const keys = [{ ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'ES256' }]
  server.on('request', (_, response) => response.end(JSON.stringify({ keys })))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const login = { issuer: 'iss', audience: 'aud', algorithm: 'ES256' as const }
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/jwks`
  identity = makeIdentity({ login: { ...login, jwksUrl }, edgeCore, clock: () => now })
  away = makeIdentity({ login: { ...login, jwksUrl: 'http://127.0.0.1:1/' }, edgeCore, clock: () => now })
})
after(() => server.close())

const seconds = Math.floor(now / 1000)
const good: JWTPayload = { iss: 'iss', aud: 'aud', sub: 'anna', exp: seconds + 60, role: 'operator' }
const sign = (payload: JWTPayload, key = pair.privateKey, kid = 'one') =>
  new SignJWT(payload).setProtectedHeader({ alg: 'ES256', kid }).sign(key)

/** What one way of proving says of a request with these headers. */
async function ask<T>(
  prove: (c: Parameters<Identity['caller']>[0]) => T | Promise<T>,
  headers: Record<string, string>,
): Promise<T | string> {
  let result: T | string = 'not asked'
  const app = new Hono().get('/', async (c) => {
    try {
      result = await prove(c)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      result = error.code
    }
    return c.text('')
  })
  await app.request('/', { headers })
  return result
}
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

test('a login signed by the login’s key proves who calls and in which role', async () => {
  const token = bearer(await sign(good))
  assert.deepEqual(await ask(identity.caller, token), { actor: 'anna', role: 'operator' })
  assert.equal(await ask(identity.user, token), 'anna')
  const without = bearer(await sign({ ...good, role: 'emperor' }))
  assert.deepEqual(await ask(identity.caller, without), { actor: 'anna', role: undefined })
})

test('nothing else proves anything: each of these is UNAUTHENTICATED', async () => {
  const tokens: Record<string, string> = {
    'signed by another key': await sign(good, other.privateKey),
    'signed by an unknown key': await sign(good, other.privateKey, 'two'),
    'not signed at all': new UnsecuredJWT(good).encode(),
    'signed with a shared secret': await new SignJWT(good)
      .setProtectedHeader({ alg: 'HS256', kid: 'one' })
      .sign(new TextEncoder().encode('x'.repeat(32))),
    'expired beyond the leeway': await sign({ ...good, exp: seconds - 6 }),
    'without an expiry': await sign({ iss: 'iss', aud: 'aud', sub: 'anna' }),
    'of another issuer': await sign({ ...good, iss: 'else' }),
    'for another audience': await sign({ ...good, aud: 'else' }),
    'not valid yet': await sign({ ...good, nbf: seconds + 30 }),
    'without a user': await sign({ iss: 'iss', aud: 'aud', exp: seconds + 60 }),
    'of an empty user': await sign({ ...good, sub: '' }),
    'of a user with a zero character': await sign({ ...good, sub: 'a\0' }),
    'of an endless user': await sign({ ...good, sub: 'x'.repeat(300) }),
    'no token': 'abc',
  }
  for (const [what, token] of Object.entries(tokens))
    assert.equal(await ask(identity.caller, bearer(token)), 'UNAUTHENTICATED', what)
  for (const headers of [
    {},
    { Authorization: 'Basic YTpi' },
    { 'User-Id': 'anna' },
    bearer('x'.repeat(5_000)),
  ])
    assert.equal(await ask(identity.user, headers as Record<string, string>), 'UNAUTHENTICATED')
})

test('clocks may differ by the leeway', async () => {
  const late = bearer(await sign({ ...good, exp: seconds - 3 }))
  assert.deepEqual(await ask(identity.caller, late), { actor: 'anna', role: 'operator' })
})

test('the edge’s assertion proves a user, and without one the edge itself', async () => {
  const of = (user: string, at = now) => ({ 'Tidegate-Assertion': sealAssertion(user, at, edgeCore) })
  assert.equal(await ask(identity.user, of('użytkownik:1')), 'użytkownik:1')
  assert.equal(await ask(identity.edge, of('')), undefined)
  assert.equal(await ask(identity.edge, of('anna')), 'UNAUTHENTICATED')
  assert.equal(await ask(identity.user, of('')), 'UNAUTHENTICATED')
  assert.equal(await ask(identity.edge, {}), 'UNAUTHENTICATED')
  assert.equal(await ask(identity.user, of('anna', now - 66_000)), 'UNAUTHENTICATED')
})

test('a forged assertion is refused, also beside a good login', async () => {
  const ring = parseKeyring('K', 'k1:another-secret-of-at-least-32-characters', () => () => 'mac')
  const forged = { 'Tidegate-Assertion': sealAssertion('anna', now, ring), ...bearer(await sign(good)) }
  assert.equal(await ask(identity.user, forged), 'UNAUTHENTICATED')
})

test('an assertion never stands for a login with a role', async () => {
  const headers = { 'Tidegate-Assertion': sealAssertion('anna', now, edgeCore) }
  assert.equal(await ask(identity.caller, headers), 'UNAUTHENTICATED')
})

test('when the login’s keys can’t be fetched, the caller is not told that the login is bad', async () => {
  assert.equal(await ask(away.caller, bearer(await sign(good))), 'UNAVAILABLE')
})
