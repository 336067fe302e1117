import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { exportJWK, exportSPKI, generateKeyPair, type JWK, SignJWT, UnsecuredJWT } from 'jose'
import { limits } from '../schema/limits.ts'
import { Away } from './away.ts'
import { bounds } from './bounds.ts'
import { bearer, isUserId, type Logins, makeLogins } from './login.ts'

const lifetime = { waitUntil: () => undefined }
const issuer = 'https://login.example'
const audience = 'tidegate'
const hour = 3600

type Pair = Awaited<ReturnType<typeof generateKeyPair>>
let pair: Pair
let published: JWK[] = []
let asked = 0
let server: Server
let jwksUrl = ''

before(async () => {
  pair = await generateKeyPair('ES256', { extractable: true })
  published = [{ ...(await exportJWK(pair.publicKey)), kid: 'one', alg: 'ES256' }]
  server = createServer((_, response) => {
    asked++
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ keys: published }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

after(() => {
  server.closeAllConnections()
  server.close()
})

interface Claims {
  sub?: unknown
  iss?: string
  aud?: string
  exp?: number | undefined
  nbf?: number
}

const seconds = () => Math.floor(Date.now() / 1000)

function sign(claims: Claims = {}, kid = 'one', key = pair.privateKey): Promise<string> {
  const payload = { sub: 'ann', iss: issuer, aud: audience, exp: seconds() + hour, ...claims }
  return new SignJWT(payload as Record<string, unknown>).setProtectedHeader({ alg: 'ES256', kid }).sign(key)
}

function logins(clock = () => Date.now(), url = jwksUrl): Logins {
  return makeLogins({ jwksUrl: url, issuer, audience, algorithm: 'ES256' }, clock)
}

const userOf = (token: string, from = logins()) => from.userOf(token, lifetime)

test('the user of a login is its sub, whatever Unicode it is', async () => {
  for (const sub of ['ann', '用户 1', 'a:b%c/d?e&f', '🙂', 'x'.repeat(256)])
    assert.equal(await userOf(await sign({ sub })), sub)
})

test('a sub that no store could keep is no login: missing, empty, too long, NUL, half a surrogate pair, not a text', async () => {
  for (const sub of [undefined, '', 'x'.repeat(257), 'a\0b', 7, null, ['ann'], { user: 'ann' }])
    assert.equal(await userOf(await sign({ sub })), undefined, JSON.stringify(sub))
  // JSON can carry a lone surrogate as an escape; JWT libraries write UTF-8, so the text is made by hand.
  assert.equal(isUserId('\ud800'), false)
  assert.equal(isUserId('ok\udc00'), false)
})

test('the algorithm is pinned: unsigned tokens and HS256 with the public key are refused', async () => {
  const claims = { sub: 'ann', iss: issuer, aud: audience, exp: seconds() + hour }
  assert.equal(await userOf(new UnsecuredJWT(claims).encode()), undefined)
  const publicKeys = [
    new TextEncoder().encode(await exportSPKI(pair.publicKey)),
    new TextEncoder().encode(JSON.stringify(published[0])),
  ]
  for (const secret of publicKeys) {
    const forged = await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid: 'one' }).sign(secret)
    assert.equal(await userOf(forged), undefined)
  }
})

test('a key that the token brings along is not believed', async () => {
  const own = await generateKeyPair('ES256', { extractable: true })
  const forged = await new SignJWT({ sub: 'ann', iss: issuer, aud: audience, exp: seconds() + hour })
    .setProtectedHeader({ alg: 'ES256', jwk: await exportJWK(own.publicKey), kid: 'one' })
    .sign(own.privateKey)
  assert.equal(await userOf(forged), undefined)
})

test('issuer, audience, expiry and not-before are checked, with a small leeway for clocks (case-K6)', async () => {
  const leeway = limits.clockLeewayMs / 1000
  for (const claims of [
    { iss: 'https://other.example' },
    { aud: 'other' },
    { exp: seconds() - leeway - 2 },
    { exp: undefined },
    { nbf: seconds() + leeway + 10 },
  ])
    assert.equal(await userOf(await sign(claims)), undefined, JSON.stringify(claims))
  assert.equal(await userOf(await sign({ exp: seconds() - leeway + 3 })), 'ann')
  assert.equal(await userOf(await sign({ nbf: seconds() + leeway - 2 })), 'ann')
})

test('no altered character of a login is accepted', async () => {
  const token = await sign()
  const from = logins()
  await fc.assert(
    fc.asyncProperty(
      fc.nat(token.length - 2),
      fc.constantFrom('A', 'b', '7', '_', '.'),
      async (at, letter) => {
        const altered = token.slice(0, at) + letter + token.slice(at + 1)
        if (altered !== token) assert.equal(await userOf(altered, from), undefined)
      },
    ),
    { numRuns: 200 },
  )
})

test('hostile text is no login and never an error', async () => {
  const from = logins()
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string({ maxLength: 80 }),
        fc.array(fc.base64String(), { maxLength: 5 }).map((parts) => parts.join('.')),
        fc.json().map((header) => `${Buffer.from(header).toString('base64url')}.e30.c2ln`),
      ),
      async (text) => assert.equal(await userOf(text, from), undefined),
    ),
    { numRuns: 200 },
  )
})

test('only a Bearer of bounded length is read from the header', () => {
  assert.equal(bearer('Bearer a.b.c'), 'a.b.c')
  assert.equal(bearer('bearer   a.b.c '), 'a.b.c')
  for (const header of [
    null,
    '',
    'a.b.c',
    'Basic a.b.c',
    'Bearer',
    'Bearer a b',
    `Bearer ${'x'.repeat(4097)}`,
  ])
    assert.equal(bearer(header), undefined, String(header))
})

test('the issuer is asked once for many logins, and again when a new key appears, but not by a flood of unknown keys', async () => {
  const time = { nowMs: Date.now() }
  const from = logins(() => time.nowMs)
  const before = asked
  const tokens = await Promise.all(Array.from({ length: 20 }, (_, n) => sign({ sub: `user ${n}` })))
  await Promise.all(tokens.map((token) => userOf(token, from)))
  assert.equal(asked, before + 1)

  const next = await generateKeyPair('ES256', { extractable: true })
  const withNext = await sign({}, 'two', next.privateKey)
  assert.equal(await userOf(withNext, from), undefined)
  published.push({ ...(await exportJWK(next.publicKey)), kid: 'two', alg: 'ES256' })
  assert.equal(await userOf(withNext, from), undefined)
  assert.equal(asked, before + 1)
  time.nowMs += bounds.jwksRefreshEveryMs
  assert.equal(await userOf(withNext, from), 'ann')
  assert.equal(asked, before + 2)
  for (let n = 0; n < 20; n++)
    assert.equal(await userOf(await sign({}, `unknown ${n}`, next.privateKey), from), undefined)
  assert.equal(asked, before + 2)
})

test('a login stays verified for minutes and not past its expiry', async () => {
  const time = { nowMs: Date.now() }
  const from = logins(() => time.nowMs)
  const token = await sign({ exp: seconds() + 60 })
  assert.equal(await userOf(token, from), 'ann')
  time.nowMs += 59_000
  assert.equal(await userOf(token, from), 'ann')
  time.nowMs += limits.clockLeewayMs + 2_000
  assert.equal(await userOf(token, from), undefined)
})

test('with the issuer away logins are neither valid nor invalid; once seen, its keys go on serving', async () => {
  const gone = createServer((_, response) => response.end(JSON.stringify({ keys: published })))
  await new Promise<void>((resolve) => gone.listen(0, '127.0.0.1', resolve))
  const { port } = gone.address() as AddressInfo
  const time = { nowMs: Date.now() }
  const from = logins(() => time.nowMs, `http://127.0.0.1:${port}/`)
  assert.equal(await userOf(await sign(), from), 'ann')
  gone.closeAllConnections()
  await new Promise((resolve) => gone.close(resolve))
  time.nowMs += bounds.jwksTtlMs
  assert.equal(await userOf(await sign({ sub: 'bob' }), from), 'bob')
  await assert.rejects(
    userOf(
      await sign(),
      logins(() => Date.now(), `http://127.0.0.1:${port}/`),
    ),
    Away,
  )
})

test('an answer that holds no keys is an absence of the issuer, not a verdict on logins', async () => {
  const odd = createServer((_, response) => response.end('{"keys": "none"}'))
  await new Promise<void>((resolve) => odd.listen(0, '127.0.0.1', resolve))
  const { port } = odd.address() as AddressInfo
  await assert.rejects(
    userOf(
      await sign(),
      logins(() => Date.now(), `http://127.0.0.1:${port}/`),
    ),
    Away,
  )
  odd.closeAllConnections()
  odd.close()
})
