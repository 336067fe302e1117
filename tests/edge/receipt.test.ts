import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { sealReceipt } from '../../schema/tokens.ts'
import { World } from './world.ts'

const requestId = '01a22872-dcde-700e-b98f-f65ed33cfa7c'
const verdict = JSON.stringify({ request_id: requestId, status: 'PROCESSING' })
let world: World
let heard: { path: string; userId: string; body: string }[] = []
before(async () => {
  world = await World.start()
  world.core.answer = async ({ path, userId }, response, request) => {
    heard.push({ path, userId, body: await textOf(request) })
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(verdict)
  }
})
after(() => world.stop())

async function textOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

const receiptOf = (userId: string, kid: 'receiptKeys' | 'claimTokenKeys' = 'receiptKeys') =>
  sealReceipt({ campaignId: 'c1', bucket: 0, requestId, userId }, world.ring(kid))
const present = async (body: string, user = 'ann', headers: Record<string, string> = {}) =>
  world.call('/v1/receipts', {
    method: 'POST',
    body,
    headers: {
      Authorization: `Bearer ${await world.login(user)}`,
      'Content-Type': 'application/json',
      ...headers,
    },
  })

test('a user’s own receipt reaches the core, for that user, and its answer comes back uncached (CL15)', async () => {
  heard = []
  const receipt = receiptOf('ann')
  const answer = await present(JSON.stringify({ receipt }))
  assert.deepEqual([answer.status, answer.text], [200, verdict])
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  assert.deepEqual(heard, [{ path: '/v1/receipts', userId: 'ann', body: JSON.stringify({ receipt }) }])
})

test('of a receipt that is forged, altered, another user’s or none at all the core hears nothing', async () => {
  heard = []
  const own = receiptOf('ann')
  const refused: [number, Awaited<ReturnType<typeof present>>][] = [
    [400, await present(JSON.stringify({ receipt: receiptOf('ben') }))],
    [400, await present(JSON.stringify({ receipt: receiptOf('ann', 'claimTokenKeys') }))],
    [
      400,
      await present(JSON.stringify({ receipt: own.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) })),
    ],
    [400, await present(JSON.stringify({ receipt: own.replace('c1', 'c2') }))],
    [400, await present(JSON.stringify({ receipt: 7 }))],
    [400, await present('{}')],
    [400, await present('not json')],
    [413, await present(JSON.stringify({ receipt: 'x'.repeat(1_000_000) }))],
    [415, await present(own, 'ann', { 'Content-Type': 'text/plain' })],
    [401, await world.call('/v1/receipts', { method: 'POST', body: JSON.stringify({ receipt: own }) })],
  ]
  for (const [i, [status, answer]] of refused.entries()) {
    assert.equal(answer.status, status, `${i}: ${answer.text}`)
    assert.match(answer.headers.get('Content-Type')!, /^application\/problem\+json/)
  }
  assert.deepEqual(heard, [])
})
