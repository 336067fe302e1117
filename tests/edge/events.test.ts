import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, afterEach, before, test } from 'node:test'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import { limits } from '../../schema/limits.ts'
import { sealTicket } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import { World } from './world.ts'

/** Caps of event streams at the gate, and where a client goes that gets none. */

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())
afterEach(() => {
  world.core.fault = 'none'
  world.core.calls.length = 0
})

const requestOf = (user: string) => requestIdOf(`${packTime(Date.now())}-aaaaaaaaa${userTag(user)}`)
const bearer = async (user: string) => ({ Authorization: `Bearer ${await world.login(user)}` })

/** The core takes every stream; each can be written to and ended by the test. */
function takeStreams(): ServerResponse[] {
  const streams: ServerResponse[] = []
  world.core.answer = (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write(': hello\n\n')
    streams.push(response)
  }
  return streams
}

async function open(path: string, headers: Record<string, string>) {
  const client = new AbortController()
  const response = await fetch(world.url + path, { headers, signal: client.signal })
  return { status: response.status, response, leave: () => client.abort() }
}

async function fill(path: string, headers: Record<string, string>) {
  const all = await Promise.all(
    Array.from({ length: limits.sseConnectionsPerUserMax }, () => open(path, headers)),
  )
  assert.ok(all.every(({ status }) => status === 200))
  return all
}

/** Takes a place that is given back; to be kept, for a stream that nobody holds may be ended at any time. */
const hasPlace = (path: string, headers: Record<string, string>) =>
  until(
    async () => {
      const opened = await open(path, headers)
      return opened.status === 200 && opened
    },
    'no place was given back',
    20_000,
    50,
  )

test('case-J8: past a user’s streams the next is RATE_LIMITED with where to poll, the core hears nothing of it, and others are served', async () => {
  takeStreams()
  const id = requestOf('cap')
  const headers = await bearer('cap')
  const all = await fill('/v1/me/events', headers)
  world.core.calls.length = 0
  const over = await world.call(`/v1/claims/${id}/events`, { headers })
  assert.deepEqual([over.status, over.body.code], [429, 'RATE_LIMITED'])
  assert.equal(over.body.retry_after_ms, limits.pollAfterMaxMs)
  assert.equal(over.headers.get('Retry-After'), String(limits.pollAfterMaxMs / 1_000))
  assert.equal(over.body['poll_url'], `/v1/claims/${id}`)
  assert.equal((await world.call('/v1/me/events', { headers })).status, 429)
  assert.deepEqual(world.core.calls, [])
  const other = await open('/v1/me/events', await bearer('other'))
  assert.equal(other.status, 200)
  for (const { leave } of [...all, other]) leave()
})

test('a stream that the core ends gives its place back', async () => {
  const streams = takeStreams()
  const headers = await bearer('ends')
  const all = await fill('/v1/me/events', headers)
  streams[0]!.end()
  const place = await hasPlace('/v1/me/events', headers)
  assert.equal((await world.call('/v1/me/events', { headers })).status, 429)
  for (const { leave } of [...all, place]) leave()
})

test('a client that leaves gives its place back, at the core’s next heartbeat at the latest', async () => {
  const streams = takeStreams()
  const headers = await bearer('leaves')
  const all = await fill('/v1/me/events', headers)
  all[0]!.leave()
  const again = async () => {
    for (const stream of streams) stream.write(': heartbeat\n\n')
    return (await open('/v1/me/events', headers)).status === 200
  }
  await until(again, 'no place was given back', 20_000, 50)
  for (const { leave } of all) leave()
})

test('a client that leaves before the core has answered gives its place back', async () => {
  world.core.fault = 'hang'
  let headers = await bearer('hasty')
  for (let tries = 1; ; tries++) {
    const { requests } = world.core
    const beganAt = Date.now()
    const clients = Array.from({ length: limits.sseConnectionsPerUserMax }, () => new AbortController())
    const calls = clients.map(({ signal }) => fetch(`${world.url}/v1/me/events`, { headers, signal }))
    await until(() => world.core.requests >= requests + calls.length, 'the core was not asked', 20_000, 10)
    const { status } = await world.call('/v1/me/events', { headers })
    // Past this the gate has given the core up, and the places were free anyway.
    const tooLate = Date.now() - beganAt > limits.coreTimeoutMs
    for (const client of clients) client.abort()
    await Promise.allSettled(calls)
    if (!tooLate) {
      assert.equal(status, 429)
      break
    }
    assert.ok(tries < 5, 'this machine is too busy: no try was quick enough to mean anything')
    headers = await bearer(`hasty-${tries}`)
  }
  world.core.fault = 'none'
  takeStreams()
  const { leave } = await hasPlace('/v1/me/events', headers)
  leave()
})

test('a refusal of the core’s takes no place', async () => {
  world.core.answer = (_, response) =>
    response.writeHead(404, { 'Content-Type': 'application/problem+json' }).end('{"code":"CLAIM_NOT_FOUND"}')
  const headers = await bearer('refused')
  for (let n = 0; n <= limits.sseConnectionsPerUserMax; n++)
    assert.equal((await world.call(`/v1/claims/${requestOf('refused')}/events`, { headers })).status, 404)
  for (let n = 0; n <= limits.sseConnectionsPerUserMax; n++)
    assert.equal((await world.call('/v1/me/events', { method: 'HEAD', headers })).status, 404)
})

test('with the core away, and with its circuit open, the events call says where to poll, and that address answers the same reader', async () => {
  const id = requestOf('ann')
  const ticket = sealTicket(
    { campaignId: 'c1', bucket: 0, requestId: id, userId: 'ann' },
    world.ring('receiptKeys'),
  )
  await world.core.stop()
  try {
    for (let n = 0; n < 8; n++) {
      const answer = await world.call(`/v1/claims/${id}/events?ticket=${encodeURIComponent(ticket)}`)
      assert.deepEqual([answer.status, answer.body.code], [503, 'UNAVAILABLE'])
      assert.ok(answer.body.retry_after_ms! > 0)
      const polled = await world.call(answer.body['poll_url'] as string)
      assert.deepEqual([polled.status, polled.body.status], [200, 'PROCESSING'])
    }
    await until(() => /circuit_opened/.test(world.log()), 'nothing was logged', 20_000)
    const byLogin = await world.call(`/v1/claims/${id}/events`, { headers: await bearer('ann') })
    assert.deepEqual([byLogin.status, byLogin.body['poll_url']], [503, `/v1/claims/${id}`])
  } finally {
    await world.core.start()
  }
})
