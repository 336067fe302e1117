import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import { type Campaign, World } from './world.ts'

/** Campaigns that are claimed in the database at once (IS13): the gate's end, in workerd. */

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())
afterEach(() => {
  world.core.fault = 'none'
  world.core.calls.length = 0
})

async function directCampaign(): Promise<Campaign> {
  const campaign = await world.campaign({ primed: false })
  campaign.snapshot.delivery = 'direct'
  return campaign
}

function coreAnswers(status: number, type: string, body: unknown): void {
  world.core.answer = (_, response) =>
    response.writeHead(status, { 'Content-Type': type }).end(JSON.stringify(body))
}

test('a direct claim is answered 201 DELIVERED with its coupon, a replay with the same body', async () => {
  const campaign = await directCampaign()
  const request_id = requestIdOf(`${packTime(Date.now())}-aaaaaaaaa${userTag('ann')}`)
  const issued = { request_id, coupon_id: 'c-1', replayed: false }
  coreAnswers(200, 'application/json', issued)
  const token = await world.token(campaign, 'ann')
  world.core.calls.length = 0
  const first = await world.claim(campaign.id, { token, key: 'k' })
  assert.equal(first.status, 201, first.text)
  assert.deepEqual([first.body['status'], first.body['coupon_id']], ['DELIVERED', 'c-1'])
  assert.equal(first.body['request_id'], request_id)
  assert.ok(first.body['receipt'] && first.body['status_url'])
  assert.equal(first.headers.get('Cache-Control'), 'no-store')
  coreAnswers(200, 'application/json', { ...issued, replayed: true })
  const again = await world.claim(campaign.id, { token, key: 'k' })
  assert.deepEqual([again.status, again.text], [201, first.text])
  assert.equal(again.headers.get('Idempotency-Replayed'), 'true')
  assert.deepEqual(
    world.core.calls.map(({ path, userId }) => [path, userId]),
    [
      ['/internal/v1/claims', 'ann'],
      ['/internal/v1/claims', 'ann'],
    ],
  )
})

test('the core’s refusal is passed on, and a core that does not answer leaves the outcome unknown', async () => {
  const campaign = await directCampaign()
  const token = await world.token(campaign, 'bob')
  coreAnswers(409, 'application/problem+json', { code: 'SOLD_OUT' })
  const refused = await world.claim(campaign.id, { token, key: 'k' })
  assert.deepEqual([refused.status, refused.body['code']], [409, 'SOLD_OUT'])
  world.core.fault = 'hang'
  const unknown = await world.claim(campaign.id, { token, key: 'k' })
  assert.deepEqual([unknown.status, unknown.body['code']], [503, 'OUTCOME_UNKNOWN'])
  assert.ok(Number(unknown.headers.get('Retry-After')) >= 1)
})
