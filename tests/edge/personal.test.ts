import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { bounds } from '../../edge/bounds.ts'
import { compensate, inspect, settle } from '../../lua/stock.ts'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import { bucketOf } from '../../schema/hash.ts'
import { limits } from '../../schema/limits.ts'
import { sealTicket } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import type { CoreCall } from './coreDouble.ts'
import { World } from './world.ts'

/** For all that is not the gate's waiting, on a machine that may stall meanwhile. */
const slackMs = 4_000

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())
afterEach(() => {
  world.core.fault = 'none'
  world.core.calls.length = 0
})

const requestOf = (user: string, atMs = Date.now()) =>
  requestIdOf(`${packTime(atMs)}-aaaaaaaaa${userTag(user)}`)
const ticketOf = (requestId: string, userId: string) => {
  const ticket = { campaignId: 'c1', bucket: 0, requestId, userId }
  return encodeURIComponent(sealTicket(ticket, world.ring('receiptKeys')))
}
const bearer = async (user: string) => ({ Authorization: `Bearer ${await world.login(user)}` })

function answerWith(status: number, type: string, body: string, headers = {}): void {
  world.core.answer = (_, response) =>
    response.writeHead(status, { 'Content-Type': type, ...headers }).end(body)
}

test('a claim’s status is read with its user’s login or with its ticket; the core hears who it is', async () => {
  const id = requestOf('ann%&?')
  answerWith(200, 'application/json', '{"status":"DELIVERED"}', {
    'Cache-Control': 'public',
    'Set-Cookie': 'a=b',
  })
  const byLogin = await world.call(`/v1/claims/${id}`, { headers: await bearer('ann%&?') })
  const byTicket = await world.call(`/v1/claims/${id}?ticket=${ticketOf(id, 'ann%&?')}`)
  for (const answer of [byLogin, byTicket]) {
    assert.deepEqual([answer.status, answer.text], [200, '{"status":"DELIVERED"}'])
    assert.equal(answer.headers.get('Cache-Control'), 'no-store', 'case-J11')
    assert.equal(answer.headers.get('Set-Cookie'), null)
  }
  const call: CoreCall = { path: `/v1/claims/${id}`, userId: 'ann%&?', lastEventId: undefined }
  assert.deepEqual(world.core.calls, [call, call])
})

test('a genuine ticket serves beside a login that has run out', async () => {
  const id = requestOf('ann')
  answerWith(200, 'application/json', '{}')
  const headers = { Authorization: `Bearer ${await world.login('ann', { ttl_s: -600 })}` }
  assert.equal((await world.call(`/v1/claims/${id}?ticket=${ticketOf(id, 'ann')}`, { headers })).status, 200)
})

test('no credential, a forged ticket, another claim’s or an old one: UNAUTHENTICATED, and the core hears nothing', async () => {
  const id = requestOf('ann')
  const old = requestOf('ann', Date.now() - limits.ticketLifetimeMs - 1)
  const genuine = ticketOf(id, 'ann')
  const paths = [
    `/v1/claims/${id}`,
    `/v1/claims/${id}?ticket=`,
    `/v1/claims/${id}?ticket=x`,
    `/v1/claims/${id}?ticket=${genuine.slice(0, -1)}`,
    `/v1/claims/${id}?ticket=${ticketOf(requestOf('bob'), 'bob')}`,
    `/v1/claims/${old}?ticket=${ticketOf(old, 'ann')}`,
    `/v1/claims/${id}/events`,
    `/v1/me/coupons?ticket=${genuine}`,
    `/v1/me/events?ticket=${genuine}`,
  ]
  for (const path of paths) {
    const answer = await world.call(path)
    assert.deepEqual([answer.status, answer.body.code], [401, 'UNAUTHENTICATED'], path)
  }
  assert.deepEqual(world.core.calls, [])
})

test('case-J6: a malformed request id, or one that is somebody else’s, is CLAIM_NOT_FOUND without asking anybody', async () => {
  const headers = await bearer('ann')
  for (const id of [
    'x',
    '1',
    requestOf('ann').toUpperCase(),
    '00000000-0000-4000-8000-000000000000',
    requestOf('bob'),
  ])
    for (const path of [`/v1/claims/${id}`, `/v1/claims/${id}/events`]) {
      const answer = await world.call(path, { headers })
      assert.deepEqual([answer.status, answer.body.code], [404, 'CLAIM_NOT_FOUND'], path)
    }
  assert.deepEqual(world.core.calls, [])
})

test('the core’s own refusals pass as they are', async () => {
  const refusal = '{"code":"CLAIM_NOT_FOUND","status":404}'
  answerWith(404, 'application/problem+json', refusal)
  const answer = await world.call(`/v1/claims/${requestOf('ann')}`, { headers: await bearer('ann') })
  assert.deepEqual([answer.status, answer.text], [404, refusal])
  answerWith(429, 'application/problem+json; charset=utf-8', '{"code":"RATE_LIMITED"}', {
    'Retry-After': '7',
  })
  const limited = await world.call('/v1/me/coupons', { headers: await bearer('ann') })
  assert.deepEqual([limited.status, limited.headers.get('Retry-After')], [429, '7'])
})

test('anything else that comes from the core is UNAVAILABLE with a time, and does not leak', async () => {
  const headers = await bearer('ann')
  const answers: [number, string, string][] = [
    [500, 'text/html', 'Error: at secret.ts:1'],
    [200, 'text/html', 'secret'],
    [302, 'text/plain', 'secret'],
    [401, 'application/problem+json', '{"code":"UNAUTHENTICATED","detail":"secret"}'],
    [204, 'application/json', ''],
  ]
  for (const [status, type, body] of answers) {
    world.core.answer = (_, response) =>
      response.writeHead(status, { 'Content-Type': type, Location: 'http://127.0.0.1:1/' }).end(body)
    for (const path of [`/v1/claims/${requestOf('ann')}`, '/v1/me/coupons', '/v1/me/events']) {
      const answer = await world.call(path, { headers })
      assert.deepEqual([answer.status, answer.body.code], [503, 'UNAVAILABLE'], `${path} ${status} ${type}`)
      assert.equal(answer.headers.get('Retry-After'), '1')
      assert.doesNotMatch(answer.text, /secret/)
    }
  }
})

test('with the core away a ticket’s bearer hears PROCESSING, in time; a login alone hears UNAVAILABLE', async () => {
  for (const fault of ['fail', 'hang'] as const) {
    world.core.fault = fault
    const id = requestOf('ann')
    const began = Date.now()
    const byTicket = await world.call(`/v1/claims/${id}?ticket=${ticketOf(id, 'ann')}`)
    assert.ok(Date.now() - began < limits.coreTimeoutMs + slackMs)
    assert.equal(byTicket.status, 200)
    const { poll_after_ms: pollAfterMs, ...rest } = byTicket.body
    assert.deepEqual(rest, { request_id: id, status: 'PROCESSING' })
    assert.ok(Number(pollAfterMs) >= limits.pollAfterMs)
    const byLogin = await world.call(`/v1/claims/${id}`, { headers: await bearer('ann') })
    assert.deepEqual([byLogin.status, byLogin.body.code], [503, 'UNAVAILABLE'])
  }
})

test('the wallet passes its own parameters, and no other, to the core', async () => {
  answerWith(200, 'application/json', '{"data":[],"next_cursor":null}')
  const path =
    '/v1/me/coupons?status=AVAILABLE&limit=5&cursor=a%26b%3D&user_id=bob&since=2026-01-01T00:00:00Z'
  const answer = await world.call(path, { headers: await bearer('ann') })
  assert.equal(answer.text, '{"data":[],"next_cursor":null}')
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  const [call] = world.core.calls
  assert.equal(call!.userId, 'ann')
  const asked = new URL(call!.path, 'http://core')
  assert.equal(asked.pathname, '/v1/me/coupons')
  assert.deepEqual(Object.fromEntries(asked.searchParams), {
    status: 'AVAILABLE',
    since: '2026-01-01T00:00:00Z',
    cursor: 'a&b=',
    limit: '5',
  })
  answerWith(200, 'application/json', '{}')
  assert.equal((await world.call('/v1/me/coupons', { headers: await bearer('ann') })).status, 200)
  assert.equal(world.core.calls.at(-1)!.path, '/v1/me/coupons')
})

/** Opens an event stream at the core that the test writes to. */
function openStream(): Promise<ServerResponse> {
  return new Promise((resolve) => {
    world.core.answer = (_, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write(': hello\n\n')
      resolve(response)
    }
  })
}

test('events pass as they come, with the client’s Last-Event-ID, and the stream ends with the core’s', async () => {
  const id = requestOf('ann')
  const upstream = openStream()
  const response = await fetch(`${world.url}/v1/claims/${id}/events?ticket=${ticketOf(id, 'ann')}`, {
    headers: { 'Last-Event-ID': '42' },
  })
  assert.equal(response.headers.get('Content-Type'), 'text/event-stream')
  assert.equal(response.headers.get('Cache-Control'), 'no-store')
  const stream = await upstream
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  assert.equal((await reader.read()).value, ': hello\n\n')
  for (let n = 0; n < 5; n++) {
    stream.write(`id: ${n}\ndata: {}\n\n`)
    assert.equal(
      (await reader.read()).value,
      `id: ${n}\ndata: {}\n\n`,
      'each event arrives before the next is sent',
    )
  }
  stream.end()
  assert.equal((await reader.read()).done, true)
  assert.deepEqual(world.core.calls, [{ path: `/v1/claims/${id}/events`, userId: 'ann', lastEventId: '42' }])
})

test('a stream lives longer than the deadline for its first answer, and a client that leaves ends it at the core', async () => {
  const upstream = openStream()
  const client = new AbortController()
  const response = await fetch(`${world.url}/v1/me/events`, {
    headers: await bearer('ann'),
    signal: client.signal,
  })
  const stream = await upstream
  const reader = response.body!.getReader()
  await reader.read()
  const end = Date.now() + limits.coreTimeoutMs + 500
  const lives = async () => {
    stream.write(': still here\n\n')
    assert.equal(new TextDecoder().decode((await reader.read()).value), ': still here\n\n')
    return Date.now() > end
  }
  await until(lives, 'time stood still', 20_000, 50)
  client.abort()
  // The runtime notices when it passes on the next heartbeat.
  const gone = () => {
    stream.write(': heartbeat\n\n')
    return stream.closed
  }
  await until(gone, 'the core never saw that the client had left', 20_000, 50)
})

test('HEAD on a stream opens none that stays', async () => {
  const upstream = openStream()
  const response = await fetch(`${world.url}/v1/me/events`, { method: 'HEAD', headers: await bearer('ann') })
  assert.deepEqual([response.status, response.headers.get('Content-Type')], [200, 'text/event-stream'])
  const stream = await upstream
  await until(() => stream.closed || stream.destroyed, 'the stream stayed open', 20_000)
})

test('with the core away a ticket’s bearer hears from Redis that a claim is under review, and never a final word', async () => {
  const campaign = await world.campaign({ bucketCount: 2, quota: 20 })
  const userId = 'user 3'
  const bucket = campaign.buckets[bucketOf(userId, campaign.id, 2)]!
  const accepted = await world.claim(campaign.id, { token: await world.token(campaign, userId), key: 'k' })
  const [requestId, url] = [accepted.body.request_id!, accepted.body['status_url'] as string]
  world.core.fault = 'fail'
  const hears = async () => (await world.call(url)).body.status as unknown
  const recorded = async () => (await inspect(world.runner, bucket, userId))![0]!.state
  const moves = [
    ['A', async () => undefined, 'PROCESSING'],
    ['V', () => settle(world.runner, bucket, [], [{ userId, requestId, state: 'V' }]), 'REVIEW'],
    ['X', () => settle(world.runner, bucket, [], [{ userId, requestId, state: 'X' }]), 'PROCESSING'],
    ['R', () => compensate(world.runner, bucket, userId, requestId), 'PROCESSING'],
  ] as const
  for (const [state, move, status] of moves) {
    await move()
    assert.deepEqual([await recorded(), await hears()], [state, status])
  }
})

test('with the core and Redis away a ticket’s bearer still hears PROCESSING, in time', async () => {
  const alone = await World.start()
  try {
    await alone.redis.stop()
    alone.core.fault = 'hang'
    const requestId = requestOf('ann')
    const ticket = sealTicket(
      { campaignId: 'c1', bucket: 0, requestId, userId: 'ann' },
      alone.ring('receiptKeys'),
    )
    const began = Date.now()
    const answer = await alone.call(`/v1/claims/${requestId}?ticket=${encodeURIComponent(ticket)}`)
    assert.deepEqual([answer.status, answer.body.status], [200, 'PROCESSING'])
    assert.ok(Date.now() - began < limits.coreTimeoutMs + bounds.recordedStatusMs + slackMs)
  } finally {
    await alone.stop()
  }
})
