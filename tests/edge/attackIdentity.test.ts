import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { exportJWK, generateKeyPair, importJWK, SignJWT, UnsecuredJWT } from 'jose'
import { limits } from '../../schema/limits.ts'
import { seal } from '../../schema/sealed.ts'
import {
  sealAssertion,
  sealClaimToken,
  sealReceipt,
  sealTicket,
  unsealClaimToken,
} from '../../schema/tokens.ts'
import { LOGIN_AUDIENCE, LOGIN_ISSUER } from '../../stack/issuer.ts'
import { Attacked, assertCode, requestOf } from './attacked.ts'
import { type Campaign, device, type World } from './world.ts'

/**
 * What someone with bad intent sends: each attack must end in a refusal, change nothing in the arbiter and tell the
 * core nothing. Here: identities. Requests are in attack.test.ts.
 */

let attacked: Attacked
let world: World
let campaign: Campaign
let token: string
before(async () => {
  attacked = await Attacked.start()
  ;({ world, campaign, token } = attacked)
})
after(() => world.stop())
beforeEach(() => attacked.reset())

const bearer = (user: string) => attacked.bearer(user)
const ticketOf = (requestId: string, user: string) => attacked.ticket(requestId, user)
const personalCalls = () => attacked.personalCalls()
const ring = (name: Parameters<World['ring']>[0]) => world.ring(name)
const assertUntouched = (act: () => Promise<void>) => attacked.assertUntouched(act)

describe('claim tokens', () => {
  const fields = () => unsealClaimToken(token, ring('claimTokenKeys'))!

  it('that were forged under a key of another ring, or under this ring’s name for a stranger’s key, are worth nothing', () =>
    assertUntouched(async () => {
      const [kind, kid, ...rest] = token.split(':')
      const body = rest.slice(0, -1)
      const forged = (['receiptKeys', 'campaignIdKeys', 'edgeCoreKeys'] as const).map((name) => {
        const other = ring(name)
        const mac = other.mac(other.currentKid)!
        return `${kind}:${kid}:${body.join(':')}:${mac(`${kind}:${kid}:${body.join(':')}`)}`
      })
      for (const name of ['', '__proto__', 'constructor', 'toString', 'k2', `${kid} `, `${kid},${kid}`])
        forged.push([kind, name, ...rest].join(':'))
      for (const text of forged)
        assertCode(await world.claim(campaign.id, { token: text, key: 'k' }), 401, 'TOKEN_INVALID', text)
    }))

  it('of one purpose serve no other', () =>
    assertUntouched(async () => {
      const id = requestOf('ann')
      const keys = ring('claimTokenKeys')
      const strangers = [
        sealTicket({ campaignId: campaign.id, bucket: 0, requestId: id, userId: 'ann' }, keys),
        sealReceipt({ campaignId: campaign.id, bucket: 0, requestId: id, userId: 'ann' }, keys),
        sealAssertion('ann', Date.now(), keys),
        seal('ct1', ['a', 'b'], keys),
      ]
      for (const text of strangers)
        assertCode(await world.claim(campaign.id, { token: text, key: 'k' }), 401, 'TOKEN_INVALID', text)
      const receipts = ring('receiptKeys')
      for (const text of [
        token,
        sealReceipt({ campaignId: campaign.id, bucket: 0, requestId: id, userId: 'ann' }, receipts),
        sealAssertion('ann', Date.now(), receipts),
        sealTicket({ campaignId: campaign.id, bucket: 0, requestId: id, userId: 'ann' }, keys),
      ])
        assertCode(
          await world.call(`/v1/claims/${id}?ticket=${encodeURIComponent(text)}`),
          401,
          'UNAUTHENTICATED',
          text,
        )
    }))

  it('swapped between campaigns, devices and users are refused', () =>
    assertUntouched(async () => {
      const other = await world.campaign()
      assertCode(await world.claim(other.id, { token, key: 'k' }), 401, 'TOKEN_INVALID')
      const stolen = { token, key: 'k', headers: { 'Device-Id': 'thief' } }
      assertCode(await world.claim(campaign.id, stolen), 401, 'TOKEN_INVALID')
      const byBob = { token, key: 'k', headers: await bearer('bob') }
      assertCode(await world.claim(campaign.id, byBob), 401, 'TOKEN_INVALID')
      assert.equal((await world.bucket(other)).accepted, 0)
    }))

  it('that have expired are refused', () =>
    assertUntouched(async () => {
      const keys = ring('claimTokenKeys')
      const gone = { ...fields(), expiresAtMs: Date.now() - limits.clockLeewayMs - 1 }
      assertCode(
        await world.claim(campaign.id, { token: sealClaimToken(gone, keys), key: 'k' }),
        401,
        'TOKEN_EXPIRED',
      )
    }))

  it('replayed in parallel under many keys win once (case-K7)', async () => {
    const mine = await world.token(campaign, 'replayer')
    const keys = Array.from({ length: 30 }, (_, i) => `key-${i}`)
    const answers = await Promise.all(keys.map((key) => world.claim(campaign.id, { token: mine, key })))
    assert.equal(answers.filter(({ status }) => status === 202).length, 1)
    for (const answer of answers.filter(({ status }) => status !== 202)) assertCode(answer, 409, 'TOKEN_USED')
  })

  it('say whose they are whatever stands in the user’s name', async () => {
    for (const user of ['a:b:s:c', 'ann:ct1', '%3A', 'x\ny', '{c:0}', '__proto__', '*', '"; drop', '💥']) {
      const own = await world.campaign()
      const mine = await world.token(own, user)
      assert.equal((await world.claim(own.id, { token: mine, key: 'k' })).status, 202, user)
      assert.deepEqual(await world.client.hkeys(`tg:{${own.id}:0}:users`), [user])
    }
  })
})

describe('logins', () => {
  it('with none, HS256, another issuer or audience, or a key that they bring along are refused', () =>
    assertUntouched(async () => {
      const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
      const kid = world.keys.login.publicKey.kid!
      const now = Math.floor(Date.now() / 1000)
      const claims = (more = {}) => ({
        sub: 'ann',
        iss: LOGIN_ISSUER,
        aud: LOGIN_AUDIENCE,
        exp: now + 3_600,
        ...more,
      })
      const ours = await importJWK(world.keys.login.privateKey, 'ES256')
      const sign = (header: object, more: object, key: Parameters<SignJWT['sign']>[0]) =>
        new SignJWT(claims(more)).setProtectedHeader({ alg: 'ES256', kid, ...header }).sign(key)
      const text = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
      const secret = new TextEncoder().encode(JSON.stringify(world.keys.login.publicKey))
      const forged = [
        new UnsecuredJWT(claims()).encode(),
        ...['none', 'None', 'NONE', 'ES256'].map((alg) => `${text({ alg, kid })}.${text(claims())}.`),
        await sign({ alg: 'HS256' }, {}, secret),
        await sign({}, {}, privateKey),
        await sign({ jwk: await exportJWK(publicKey) }, {}, privateKey),
        await sign({ jku: 'http://127.0.0.1:1/jwks', x5u: 'http://127.0.0.1:1' }, {}, privateKey),
        await sign({ kid: '../../etc/passwd' }, {}, privateKey),
        await sign({ kid: 'unknown' }, {}, ours),
        await sign({}, { iss: `${LOGIN_ISSUER}.evil.example` }, ours),
        await sign({}, { iss: undefined }, ours),
        await sign({}, { aud: ['elsewhere'] }, ours),
        await sign({}, { aud: undefined }, ours),
        await sign({}, { nbf: now + 600 }, ours),
        await sign({}, { exp: now - 600 }, ours),
        await sign({}, { exp: undefined }, ours),
        await sign({}, { sub: { user: 'ann' } }, ours),
      ]
      for (const login of forged) {
        const headers = { Authorization: `Bearer ${login}`, 'Device-Id': device }
        assertCode(await world.askToken(campaign.id, headers), 401, 'UNAUTHENTICATED', login)
        assertCode(await world.call('/v1/me/coupons', { headers }), 401, 'UNAUTHENTICATED', login)
      }
    }))

  it('alone say who somebody is: a user in a body, query or header is never believed (CL2)', async () => {
    const headers = { ...(await bearer('ann')), 'User-Id': 'bob', 'X-User-Id': 'bob', Cookie: 'user_id=bob' }
    await world.call('/v1/me/coupons?user_id=bob&limit=1', { headers })
    await world.call('/v1/me/coupons?limit=1&limit=2&cursor=%0d%0aX:%20y%26user_id=bob', { headers })
    assert.deepEqual(
      personalCalls().map(({ userId }) => userId),
      ['ann', 'ann'],
    )
    for (const { path } of personalCalls())
      assert.equal(new URL(path, 'http://core').searchParams.has('user_id'), false)
    const query = `/v1/campaigns/${campaign.id}/claim-tokens?user_id=bob`
    const answer = await world.call(query, { method: 'POST', headers: { ...headers, 'Device-Id': device } })
    const issued = unsealClaimToken(answer.body['claim_token'] as string, ring('claimTokenKeys'))
    assert.equal(issued?.userId, 'ann')
  })
})

describe('events and tickets', () => {
  it('of other users can’t be had: by their claim’s id, another claim’s ticket, or a user in the query', () =>
    assertUntouched(async () => {
      const bobs = requestOf('bob')
      const annsTicket = encodeURIComponent(ticketOf(requestOf('ann'), 'ann'))
      const headers = await bearer('ann')
      for (const path of [`/v1/claims/${bobs}`, `/v1/claims/${bobs}/events`]) {
        assertCode(await world.call(path, { headers }), 404, 'CLAIM_NOT_FOUND', path)
        assertCode(await world.call(`${path}?ticket=${annsTicket}`), 401, 'UNAUTHENTICATED', path)
        assertCode(await world.call(`${path}?ticket=${annsTicket}&user_id=bob`), 401, 'UNAUTHENTICATED', path)
      }
      assertCode(await world.call(`/v1/me/events?ticket=${annsTicket}&user_id=bob`), 401, 'UNAUTHENTICATED')
    }))

  it('of oneself are asked for under one’s own name, whatever else the request says', async () => {
    world.core.answer = (_, response) =>
      response.writeHead(200, { 'Content-Type': 'text/event-stream' }).end('event: x\n\n')
    const headers = {
      ...(await bearer('ann')),
      'X-User-Id': 'bob',
      'Tidegate-Assertion': sealAssertion('bob', Date.now(), ring('edgeCoreKeys')),
    }
    assert.equal((await world.call('/v1/me/events?user_id=bob', { headers })).status, 200)
    assert.deepEqual(
      personalCalls().map(({ userId }) => userId),
      ['ann'],
    )
  })

  it('tickets open nothing once they have expired, nor with another claim’s id in them', () =>
    assertUntouched(async () => {
      const old = requestOf('ann', Date.now() - limits.ticketLifetimeMs - 1)
      const id = requestOf('ann')
      for (const path of [`/v1/claims/${old}`, `/v1/claims/${old}/events`]) {
        const ticket = encodeURIComponent(ticketOf(old, 'ann'))
        assertCode(await world.call(`${path}?ticket=${ticket}`), 401, 'UNAUTHENTICATED', path)
        // Fresh time, old ticket.
        assertCode(
          await world.call(`${path.replace(old, id)}?ticket=${ticket}`),
          401,
          'UNAUTHENTICATED',
          path,
        )
      }
    }))
})
