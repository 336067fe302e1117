import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { exportSPKI, importJWK, SignJWT, UnsecuredJWT } from 'jose'
import { makeCampaignId } from '../../schema/campaignId.ts'
import { limits } from '../../schema/limits.ts'
import { type ClaimToken, sealClaimToken, sealTicket, unsealClaimToken } from '../../schema/tokens.ts'
import { LOGIN_AUDIENCE, LOGIN_ISSUER } from '../../stack/issuer.ts'
import { type Answer, type Campaign, device, World } from './world.ts'

/** Whatever a client sends: a 4xx problem with its code, never a 500, and the arbiter hears nothing of it. */

let world: World
let campaign: Campaign
let other: Campaign
let token: string
let login: string

before(async () => {
  world = await World.start()
  campaign = await world.campaign()
  other = await world.campaign()
  token = await world.token(campaign, 'ann')
  login = await world.login('ann')
})
after(() => world.stop())

/** Everything that scripts did since the last look: no call, no command in one. */
async function scriptCalls(): Promise<string[]> {
  const stats = await world.client.info('commandstats')
  return [...stats.matchAll(/cmdstat_(eval|evalsha|hset|xadd|set|hmget)\b/g)].map(([, name]) => name!)
}

/** Keys of the arbiter; those that count requests for limits come and go. */
async function arbiterKeys(): Promise<number> {
  return (await world.client.keys('tg:{*')).length
}

async function assertRefused(status: number, code: string, act: () => Promise<Answer>): Promise<Answer> {
  const keys = await arbiterKeys()
  const bucket = await world.bucket(campaign)
  await world.client.config('RESETSTAT')
  const answer = await act()
  assert.deepEqual(await scriptCalls(), [], 'the arbiter was asked')
  assert.equal(answer.status, status, answer.text)
  assert.equal(answer.body.code, code)
  assert.equal(answer.headers.get('Content-Type'), 'application/problem+json')
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  assert.equal(answer.headers.get('Access-Control-Allow-Origin'), null)
  assert.equal(await arbiterKeys(), keys)
  const { nowMs: _, ...same } = await world.bucket(campaign)
  assert.deepEqual({ ...same, nowMs: bucket.nowMs }, bucket)
  return answer
}

/** A genuine token for other terms than `token`'s. */
function tokenWith(more: Partial<ClaimToken>, ring = world.ring('claimTokenKeys')): string {
  return sealClaimToken({ ...unsealClaimToken(token, world.ring('claimTokenKeys'))!, ...more }, ring)
}

describe('a claim is refused', () => {
  const claim =
    (options: Parameters<World['claim']>[1], id = campaign.id) =>
    () =>
      world.claim(id, { token, key: 'k', ...options })

  it('for a campaign that we never made, of any form', async () => {
    const forged = makeCampaignId(new Uint8Array(16), {
      ...world.ring('campaignIdKeys'),
      mac: () => () => 'AAAAAAAAAAAA',
    })
    const altered = campaign.id.slice(0, -1) + (campaign.id.endsWith('0') ? '1' : '0')
    for (const id of [
      'nope',
      'c',
      '1',
      altered,
      forged,
      `${campaign.id}x`,
      campaign.id.toUpperCase(),
      '%00',
      '..%2f',
    ])
      await assertRefused(404, 'CAMPAIGN_NOT_FOUND', claim({}, id))
  })

  it('without an Idempotency-Key, or with one too long or not of visible ASCII', async () => {
    const { detail } = (
      await assertRefused(400, 'INVALID_REQUEST', () => world.claim(campaign.id, { token }))
    ).body
    assert.match(detail!, /Idempotency-Key/)
    for (const key of ['', 'x'.repeat(129), 'two words', 'é'])
      await assertRefused(400, 'INVALID_REQUEST', claim({ key }))
  })

  it('without a claim token, or with one that is malformed or too long', async () => {
    await assertRefused(401, 'TOKEN_INVALID', () => world.claim(campaign.id, { key: 'k' }))
    for (const text of [
      '',
      'x',
      'ct1:',
      'ct1:k1:::::::',
      `${token}${token}`,
      login,
      `ct1:k1:${'x'.repeat(4000)}`,
    ])
      await assertRefused(401, 'TOKEN_INVALID', claim({ token: text }))
  })

  it('with a token altered by one bit, anywhere', async () => {
    for (let at = 0; at < token.length; at++) {
      const altered = token.slice(0, at) + String.fromCharCode(token.charCodeAt(at) ^ 1) + token.slice(at + 1)
      const answer = await world.claim(campaign.id, { token: altered, key: 'k' })
      assert.deepEqual([answer.status, answer.body.code], [401, 'TOKEN_INVALID'], altered)
    }
    await assertRefused(401, 'TOKEN_INVALID', claim({ token: `${token.slice(0, -1)}~` }))
  })

  it('with a token under another key, or made for another purpose', async () => {
    await assertRefused(401, 'TOKEN_INVALID', claim({ token: tokenWith({}, world.ring('receiptKeys')) }))
    const requestId = '01a22872-dcde-700e-b98f-f65ed33cfa7c'
    const ticket = sealTicket(
      { campaignId: campaign.id, bucket: 0, requestId, userId: 'ann' },
      world.ring('claimTokenKeys'),
    )
    await assertRefused(401, 'TOKEN_INVALID', claim({ token: ticket }))
  })

  it('with the token of another campaign', async () => {
    await assertRefused(401, 'TOKEN_INVALID', claim({}, other.id))
  })

  it('with the token of another user, when a login says who claims', async () => {
    const headers = { Authorization: `Bearer ${await world.login('bob')}` }
    await assertRefused(401, 'TOKEN_INVALID', claim({ headers }))
  })

  it('with the token of another device', async () => {
    await assertRefused(401, 'TOKEN_INVALID', claim({ headers: { 'Device-Id': 'device-2' } }))
    for (const id of ['', 'x'.repeat(129), 'my phone'])
      await assertRefused(400, 'INVALID_REQUEST', claim({ headers: { 'Device-Id': id } }))
  })

  it('with an expired token, a little after its last instant', async () => {
    const gone = tokenWith({ expiresAtMs: Date.now() - limits.clockLeewayMs - 1 })
    await assertRefused(401, 'TOKEN_EXPIRED', claim({ token: gone }))
    const leeway = tokenWith({ expiresAtMs: Date.now() - 1, userId: 'within leeway' })
    assert.equal((await world.claim(campaign.id, { token: leeway, key: 'k' })).status, 202)
  })

  it('with a login that is not valid', async () => {
    const expired = await world.login('ann', { ttl_s: -3600 })
    for (const authorization of ['Bearer', 'Bearer x', `Basic ${login}`, `Bearer ${expired}`]) {
      const headers = { Authorization: authorization }
      await assertRefused(401, 'UNAUTHENTICATED', claim({ headers }))
    }
  })

  it('with a body', async () => {
    const send = (body: RequestInit['body'], type?: string) =>
      claim({ init: { body: body! }, ...(type === undefined ? {} : { headers: { 'Content-Type': type } }) })
    await assertRefused(400, 'INVALID_REQUEST', send('{"user_id":"bob"}', 'application/json'))
    await assertRefused(400, 'INVALID_REQUEST', send('{', 'application/json; charset=utf-8'))
    for (const type of [
      'text/plain',
      'application/xml',
      'application/jsonx',
      'multipart/form-data; boundary=x',
    ])
      await assertRefused(415, 'UNSUPPORTED_MEDIA_TYPE', send('x', type))
    const megabyte = JSON.stringify({ text: 'x'.repeat(1_000_000) })
    await assertRefused(413, 'PAYLOAD_TOO_LARGE', send(megabyte, 'application/json'))
    const chunked = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{}'))
        controller.close()
      },
    })
    const init = { body: chunked, duplex: 'half' } as RequestInit
    await assertRefused(
      400,
      'INVALID_REQUEST',
      claim({ init, headers: { 'Content-Type': 'application/json' } }),
    )
  })
})

describe('a claim token is refused', () => {
  const ask =
    (headers: Record<string, string>, id = campaign.id, more: RequestInit = {}) =>
    () =>
      world.askToken(id, { 'Device-Id': device, Authorization: `Bearer ${login}`, ...headers }, more)

  it('for a campaign that does not exist, without asking the core for one that we never made', async () => {
    world.core.calls.length = 0
    for (const id of ['nope', campaign.id.slice(0, -1), `${campaign.id}0`])
      await assertRefused(404, 'CAMPAIGN_NOT_FOUND', ask({}, id))
    assert.equal(world.core.calls.length, 0)
    const unknown = makeCampaignId(crypto.getRandomValues(new Uint8Array(16)), world.ring('campaignIdKeys'))
    await assertRefused(404, 'CAMPAIGN_NOT_FOUND', ask({}, unknown))
  })

  it('without a login, or with one forged, expired, of another issuer or audience, or by another algorithm', async () => {
    const key = await importJWK(world.keys.login.privateKey, 'ES256')
    const publicKey = await importJWK(world.keys.login.publicKey, 'ES256')
    const kid = world.keys.login.publicKey.kid!
    const claims = (more = {}) => ({
      sub: 'ann',
      iss: LOGIN_ISSUER,
      aud: LOGIN_AUDIENCE,
      exp: Math.floor(Date.now() / 1000) + 3600,
      ...more,
    })
    const sign = (more = {}) =>
      new SignJWT(claims(more)).setProtectedHeader({ alg: 'ES256', kid }).sign(key as Uint8Array)
    const hs256 = (secret: string) =>
      new SignJWT(claims()).setProtectedHeader({ alg: 'HS256', kid }).sign(new TextEncoder().encode(secret))
    const refused = [
      'x',
      login.slice(0, -10),
      `${login.slice(0, -10)}AAAAAAAAAA`,
      new UnsecuredJWT(claims()).encode(),
      await hs256(await exportSPKI(publicKey as never)),
      await hs256(JSON.stringify(world.keys.login.publicKey)),
      await world.login('ann', { ttl_s: -60 }),
      await sign({ iss: 'https://elsewhere.example' }),
      await sign({ aud: 'elsewhere' }),
      await sign({ exp: undefined }),
      await sign({ sub: '' }),
      await sign({ sub: 'a\0b' }),
      await sign({ sub: 'x'.repeat(257) }),
      `${login}${'x'.repeat(5000)}`,
    ]
    for (const text of refused) {
      const answer = await assertRefused(401, 'UNAUTHENTICATED', ask({ Authorization: `Bearer ${text}` }))
      assert.equal(answer.headers.get('WWW-Authenticate'), 'Bearer')
    }
    const nobody = () => world.askToken(campaign.id, { 'Device-Id': device })
    await assertRefused(401, 'UNAUTHENTICATED', nobody)
    assert.equal(
      (await world.askToken(campaign.id, { 'Device-Id': device, Authorization: `Bearer ${await sign()}` }))
        .status,
      201,
    )
  })

  it('without a Device-Id, or with a malformed one', async () => {
    const without = () => world.askToken(campaign.id, { Authorization: `Bearer ${login}` })
    const answer = await assertRefused(400, 'INVALID_REQUEST', without)
    assert.match(answer.body.detail!, /Device-Id/)
    for (const id of ['', 'x'.repeat(129), 'my phone', 'gerät'])
      await assertRefused(400, 'INVALID_REQUEST', ask({ 'Device-Id': id }))
  })

  it('with a body, so that a user id in it is never even read', async () => {
    const init = { body: '{"user_id":"bob"}' }
    const json = { 'Content-Type': 'application/json' }
    await assertRefused(400, 'INVALID_REQUEST', ask(json, campaign.id, init))
    await assertRefused(
      415,
      'UNSUPPORTED_MEDIA_TYPE',
      ask({ 'Content-Type': 'text/plain' }, campaign.id, init),
    )
  })
})

describe('the user of a claim comes from the login alone', () => {
  it('whatever user ids stand in the query or in headers', async () => {
    const answer = await world.call(`/v1/campaigns/${campaign.id}/claim-tokens?user_id=bob`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${login}`,
        'Device-Id': device,
        'User-Id': 'bob',
        'X-User-Id': 'bob',
      },
    })
    const sealed = unsealClaimToken(answer.body['claim_token'] as string, world.ring('claimTokenKeys'))
    assert.equal(sealed!.userId, 'ann')
  })
})
