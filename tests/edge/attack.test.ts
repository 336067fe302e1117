import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, it } from 'node:test'
import { Attacked, assertCode, requestOf } from './attacked.ts'
import { rawRequest, sendRaw } from './raw.ts'
import { type Campaign, device, type World } from './world.ts'

/**
 * What someone with bad intent sends: each attack must end in a refusal, change nothing in the arbiter and tell the
 * core nothing. Here: requests. Identities are in attackIdentity.test.ts, addresses in limits.test.ts.
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
const assertUntouched = (act: () => Promise<void>) => attacked.assertUntouched(act)

describe('bodies', () => {
  it('huge, deeply nested or misdeclared are refused unread', () =>
    assertUntouched(async () => {
      const json = { 'Content-Type': 'application/json' }
      const nested = '['.repeat(8_000) + ']'.repeat(8_000)
      const proto = '{"__proto__":{"user_id":"bob"},"user_id":"bob"}'
      for (const body of [nested, proto, '{"a":'.repeat(2_000)]) {
        assertCode(
          await world.claim(campaign.id, { token, key: 'k', headers: json, init: { body } }),
          400,
          'INVALID_REQUEST',
        )
        const headers = { ...json, ...(await bearer('ann')), 'Device-Id': device }
        assertCode(await world.askToken(campaign.id, headers, { body }), 400, 'INVALID_REQUEST')
      }
      const target = `/v1/campaigns/${campaign.id}/claims`
      const declared = [`Claim-Token: ${token}`, 'Idempotency-Key: k', 'Content-Type: application/json']
      const huge = rawRequest('POST', target, [...declared, 'Content-Length: 5000000000'], '{')
      assert.equal((await sendRaw(world.url, huge)).status, 413)
    }))

  it('framed so that two readers would see two requests never become a claim', () =>
    assertUntouched(async () => {
      const target = `/v1/campaigns/${campaign.id}/claims`
      const hidden = rawRequest('POST', target, [
        `Claim-Token: ${token}`,
        'Idempotency-Key: smuggled',
        'Content-Length: 0',
      ])
      const framings = [
        ['Content-Length: 4', 'Transfer-Encoding: chunked'],
        ['Content-Length: 0', 'Content-Length: 5'],
        ['Content-Length: -1'],
        ['Content-Length: 0x10'],
        ['Transfer-Encoding: xchunked'],
      ]
      for (const framing of framings) {
        const request = rawRequest('POST', target, [...framing, 'Idempotency-Key: k'], `0\r\n\r\n${hidden}`)
        const { status, body } = await sendRaw(world.url, request.replace('Connection: close\r\n', ''))
        assert.ok(status === 0 || status >= 400, `${framing}: ${status} ${body}`)
      }
    }))
})

describe('headers', () => {
  it('sent twice are never half believed', () =>
    assertUntouched(async () => {
      const target = `/v1/campaigns/${campaign.id}/claims`
      const good = [`Claim-Token: ${token}`, 'Idempotency-Key: k', 'Content-Length: 0']
      const twice = [
        `Claim-Token: ${token}`,
        'Idempotency-Key: k2',
        `Device-Id: ${device}`,
        'CF-Connecting-IP: 192.0.2.1',
      ]
      for (const line of twice) {
        const also = good.some((one) => one.startsWith(line.split(':')[0]!)) ? [line] : [line, line]
        const { status, body } = await sendRaw(world.url, rawRequest('POST', target, [...good, ...also]))
        assert.ok(status === 400 || status === 401, `${line}: ${status} ${body}`)
      }
      const logins = [
        `Authorization: Bearer ${await world.login('ann')}`,
        `Authorization: Bearer ${await world.login('bob')}`,
      ]
      const wallet = await sendRaw(world.url, rawRequest('GET', '/v1/me/coupons', logins))
      assert.equal(wallet.status, 401)
    }))

  it('can’t be injected by line breaks, raw or encoded, and come back in no answer', () =>
    assertUntouched(async () => {
      const target = `/v1/campaigns/${campaign.id}/claims`
      const breaks = [
        '\r\nInjected: yes',
        '\nInjected: yes',
        '\rInjected: yes',
        '\0',
        '\x0b',
        '%0d%0aInjected:%20yes',
        '\\r\\nInjected: yes',
      ]
      for (const text of breaks) {
        const lines = [`Claim-Token: x${text}`, `Idempotency-Key: k${text}`, 'Content-Length: 0']
        const byHeader = await sendRaw(world.url, rawRequest('POST', target, lines))
        assert.ok(byHeader.status === 0 || byHeader.status >= 400, JSON.stringify(text))
        assert.doesNotMatch(byHeader.head, /^Injected/im)
      }
      for (const path of [
        `/v1/campaigns/${campaign.id}%0d%0aInjected:%20yes`,
        '/v1/x%0d%0aInjected:%20yes',
        '/v1/claims/%0aInjected:yes?ticket=%0d%0aInjected:%20yes',
      ]) {
        const byPath = await sendRaw(world.url, rawRequest('GET', path, []))
        assert.ok(byPath.status >= 400, path)
        assert.doesNotMatch(byPath.head, /^Injected/im)
      }
    }))
})

describe('paths', () => {
  it('written in odd ways open nothing: neither a claim nor somebody’s wallet nor the core’s inside', () =>
    assertUntouched(async () => {
      const { id } = campaign
      const lines = [`Claim-Token: ${token}`, 'Idempotency-Key: path', 'Content-Length: 0']
      const claims = [
        `/v1/campaigns/${id}/claims/`,
        `/v1/campaigns/${id}/claims;x=1`,
        `/v1/campaigns/${id}/claims%2f`,
        `/v1/campaigns/${id}/claims/..;/claims`,
        `/v1/campaigns/${id}%2fclaims`,
        `/v1/campaigns/${id}%00/claims`,
        `/v1/campaigns/${id.toUpperCase()}/claims`,
        `/v1/campaigns/${id}/CLAIMS`,
        `/V1/campaigns/${id}/claims`,
        `//v1/campaigns/${id}/claims`,
        `/v1//campaigns/${id}/claims`,
        `/v1/campaigns//${id}/claims`,
        `/v1/campaigns/${id}//claims`,
      ]
      for (const target of claims) {
        const { status, body } = await sendRaw(world.url, rawRequest('POST', target, lines))
        assert.ok(status >= 400, `${target}: ${status} ${body}`)
      }
      const reads = [
        '/internal/v1/campaigns/x',
        '/v1/../internal/v1/campaigns/x',
        '/v1/claims/..%2f..%2finternal%2fv1%2fcampaigns%2fx',
        '/v1/claims/..;/..;/internal',
        '/v1/me/..;/me/coupons',
        '/v1/me%2fcoupons',
        '/v1/me/coupons%2f..%2f..%2f..%2fadmin',
        '/admin/v1/campaigns',
        '/v1/%2e%2e/metrics',
      ]
      const login = `Authorization: Bearer ${await world.login('ann')}`
      for (const target of reads) {
        await sendRaw(world.url, rawRequest('GET', target, [login]))
        assert.deepEqual(world.core.calls, [], `${target} reached the core`)
      }
    }))
})

describe('caches', () => {
  it('may keep no personal answer, whatever its address looks like', async () => {
    const id = requestOf('ann')
    const headers = { ...(await bearer('ann')), 'If-None-Match': '*', Range: 'bytes=0-3' }
    const paths = [
      '/v1/me/coupons',
      '/v1/me/coupons?x=.css',
      '/v1/me/coupons/style.css',
      '/v1/me/coupons%3b.js',
      `/v1/claims/${id}`,
      `/v1/claims/${id}/a.png`,
      `/v1/claims/${id}?ticket=${encodeURIComponent(ticketOf(id, 'ann'))}`,
      '/v1/claims/none.css',
    ]
    for (const path of paths) {
      const answer = await world.call(path, { headers })
      assert.ok([200, 401, 404].includes(answer.status), `${path}: ${answer.status}`)
      assert.equal(answer.headers.get('Cache-Control'), 'no-store', path)
    }
  })

  it('never give one user what another was given', async () => {
    world.core.answer = ({ userId }, response) =>
      response
        .writeHead(200, { 'Content-Type': 'application/json', 'Cache-Control': 'public, max-age=600' })
        .end(JSON.stringify({ userId }))
    for (const user of ['ann', 'bob', 'ann'])
      assert.equal((await world.call('/v1/me/coupons', { headers: await bearer(user) })).body['userId'], user)
    assertCode(await world.call('/v1/me/coupons'), 401, 'UNAUTHENTICATED')
  })

  it('can’t be given a view that a visitor’s headers or query have shaped', async () => {
    const own = await world.campaign()
    const path = `/v1/campaigns/${own.id}`
    const evil = {
      'X-Forwarded-Host': 'evil.example',
      'X-Original-URL': '/v1/me/coupons',
      'X-Rewrite-URL': '/v1/me/coupons',
      'X-HTTP-Method-Override': 'POST',
      ...(await bearer('ann')),
    }
    const shaped = await world.call(`${path}?user_id=bob&callback=evil`, { headers: evil })
    const plain = await world.call(path)
    for (const answer of [shaped, plain]) {
      assert.equal(answer.status, 200)
      assert.equal(answer.body['id'], own.id)
      // The id is random, so it may have any letters.
      assert.doesNotMatch(answer.text.replaceAll(own.id, ''), /evil|ann|bob/)
    }
    assert.equal(shaped.headers.get('ETag'), plain.headers.get('ETag'))
    assert.equal(plain.headers.get('Set-Cookie'), null)
  })
})
