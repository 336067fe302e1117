import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { World } from './world.ts'

let world: World
/** What the core was sent, with its body. */
let heard: { method: string; path: string; userId: string; body: string }[] = []
before(async () => {
  world = await World.start()
  world.core.answer = async ({ path, userId }, response, request) => {
    heard.push({ method: request.method!, path, userId, body: await textOf(request) })
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"data":[]}')
  }
})
after(() => world.stop())

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

const path = '/v1/me/push-subscriptions'
const id = 'dddddddd-0000-8000-8000-000000000000'
const subscription = { endpoint: 'https://fcm.googleapis.com/a', keys: { p256dh: 'x', auth: 'y' } }
const call = async (method: string, at: string, body?: string, headers: Record<string, string> = {}) =>
  world.call(at, {
    method,
    ...(body === undefined ? {} : { body }),
    headers: { Authorization: `Bearer ${await world.login('ann')}`, ...headers },
  })
const json = { 'Content-Type': 'application/json' }

test('a user’s browsers are listed, subscribed and unsubscribed at the core, for the login’s user', async () => {
  heard = []
  const answers = [
    await call('GET', path),
    await call('POST', path, JSON.stringify({ ...subscription, user_id: 'bob' }), json),
    await call('DELETE', `${path}/${id}`),
  ]
  for (const answer of answers) {
    assert.deepEqual([answer.status, answer.text], [200, '{"data":[]}'])
    assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  }
  assert.deepEqual(heard, [
    { method: 'GET', path, userId: 'ann', body: '' },
    { method: 'POST', path, userId: 'ann', body: JSON.stringify({ ...subscription, user_id: 'bob' }) },
    { method: 'DELETE', path: `${path}/${id}`, userId: 'ann', body: '' },
  ])
})

test('without a login, with a wrong method, type, size or text, the core hears nothing', async () => {
  heard = []
  const refused: [number, Awaited<ReturnType<typeof call>>][] = [
    [401, await world.call(path)],
    [401, await world.call(`${path}/${id}`, { method: 'DELETE' })],
    [405, await call('PUT', path, '{}', json)],
    [405, await call('DELETE', path)],
    [405, await call('GET', `${path}/${id}`)],
    [415, await call('POST', path, '{}', { 'Content-Type': 'text/plain' })],
    [413, await call('POST', path, JSON.stringify('x'.repeat(20_000)), json)],
    [400, await call('POST', path, '{', json)],
    [404, await call('DELETE', `${path}/..%2fevents`)],
  ]
  for (const [status, answer] of refused) assert.equal(answer.status, status, answer.text)
  assert.equal(refused[2]![1].headers.get('Allow'), 'GET, HEAD, POST, OPTIONS')
  assert.deepEqual(heard, [])
})
