import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Answer, type Campaign, World } from './world.ts'

let world: World
let campaign: Campaign
before(async () => {
  world = await World.start()
  campaign = await world.campaign()
})
after(() => world.stop())

function assertProblem(status: number, code: string, answer: Answer): void {
  assert.deepEqual([answer.status, answer.body.code], [status, code], answer.text)
  assert.equal(answer.headers.get('Content-Type'), 'application/problem+json')
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
}

test('paths and methods that are not there are 404 and 405 with what is allowed', async () => {
  for (const path of [
    '/v1',
    '/v1/',
    '/v1/none',
    '/v1/campaigns',
    '/v1/campaigns/',
    `/v1/campaigns/${campaign.id}/claims/`,
  ])
    assertProblem(404, 'NOT_FOUND', await world.call(path))
  const cases = [
    [`/v1/campaigns/${campaign.id}`, 'POST', 'GET, HEAD, OPTIONS'],
    [`/v1/campaigns/${campaign.id}`, 'DELETE', 'GET, HEAD, OPTIONS'],
    [`/v1/campaigns/${campaign.id}/claims`, 'GET', 'POST, OPTIONS'],
    [`/v1/campaigns/${campaign.id}/claims`, 'PUT', 'POST, OPTIONS'],
    [`/v1/campaigns/${campaign.id}/claim-tokens`, 'GET', 'POST, OPTIONS'],
    ['/v1/claims/x', 'POST', 'GET, HEAD, OPTIONS'],
    ['/v1/me/coupons', 'PATCH', 'GET, HEAD, OPTIONS'],
    ['/v1/me/events', 'POST', 'GET, HEAD, OPTIONS'],
  ] as const
  for (const [path, method, allow] of cases) {
    const answer = await world.call(path, { method })
    assertProblem(405, 'METHOD_NOT_ALLOWED', answer)
    assert.equal(answer.headers.get('Allow'), allow)
  }
})

test('every path answers OPTIONS with what is allowed, opens no origin, and answers HEAD without a body', async () => {
  const options = await world.call(`/v1/campaigns/${campaign.id}/claims`, {
    method: 'OPTIONS',
    headers: { Origin: 'https://elsewhere.example', 'Access-Control-Request-Method': 'POST' },
  })
  assert.deepEqual([options.status, options.headers.get('Allow'), options.text], [204, 'POST, OPTIONS', ''])
  assert.equal(options.headers.get('Access-Control-Allow-Origin'), null)
  const head = await world.call(`/v1/campaigns/${campaign.id}`, { method: 'HEAD' })
  assert.deepEqual([head.status, head.text], [200, ''])
  assert.ok(head.headers.get('ETag'))
})
