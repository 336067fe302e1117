import assert from 'node:assert/strict'
import { after, afterEach, before, test } from 'node:test'
import { makeCampaignId } from '../../schema/campaignId.ts'
import { limits } from '../../schema/limits.ts'
import { until } from '../../stack/process.ts'
import { type Campaign, device, World } from './world.ts'

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())
afterEach(() => {
  world.core.fault = 'none'
})

const view = (campaign: Campaign, headers: Record<string, string> = {}) =>
  world.call(`/v1/campaigns/${campaign.id}`, { headers })
const coreCalls = (campaign: Campaign) =>
  world.core.calls.filter(({ path }) => path.endsWith(campaign.id)).length

/** Until the isolate's copy is out of date. */
const untilStale = (campaign: Campaign) =>
  until(
    async () => {
      const before = coreCalls(campaign)
      await view(campaign)
      return coreCalls(campaign) > before
    },
    'the view was never loaded again',
    20_000,
    100,
  )

test('the view says what the campaign is, by the server’s clock, and for how long it may be kept', async () => {
  const campaign = await world.campaign({ primed: false })
  const answer = await view(campaign)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('Content-Type'), 'application/json')
  assert.equal(answer.headers.get('Cache-Control'), 'public, max-age=1')
  const { server_time: serverTime, ...rest } = answer.body
  assert.ok(Math.abs(Date.parse(String(serverTime)) - Date.now()) < 5_000)
  const instant = (ms: number) => new Date(ms).toISOString()
  const { snapshot } = campaign
  assert.deepEqual(rest, {
    id: campaign.id,
    name: 'Night market',
    mode: 'first_come',
    availability: 'open',
    starts_at: instant(snapshot.starts_at_ms),
    ends_at: instant(snapshot.ends_at_ms),
    per_user_limit: 1,
    benefit: snapshot.benefit,
    validity: { kind: 'days', days: 7 },
    time_zone: 'Asia/Shanghai',
    token_opens_at: instant(snapshot.starts_at_ms - limits.tokenLeadMs),
  })
})

test('an unchanged view is 304 to whoever has it, and 200 again once it changed', async () => {
  const campaign = await world.campaign({ primed: false })
  const etag = (await view(campaign)).headers.get('ETag')!
  const unchanged = await view(campaign, { 'If-None-Match': `"other", ${etag}` })
  assert.deepEqual([unchanged.status, unchanged.text], [304, ''])
  assert.equal(unchanged.headers.get('ETag'), etag)
  campaign.snapshot.state = 'PAUSED'
  const changed = await until(
    async () => {
      const answer = await view(campaign, { 'If-None-Match': etag })
      return answer.status === 200 && answer
    },
    'a pause never showed',
    20_000,
    50,
  )
  assert.equal(changed.body['availability'], 'paused')
  assert.notEqual(changed.headers.get('ETag'), etag)
})

test('however many ask at once for a campaign that no one has asked for, the core is asked once', async () => {
  const campaign = await world.campaign({ primed: false })
  const answers = await Promise.all(Array.from({ length: 200 }, () => view(campaign)))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]))
  assert.equal(coreCalls(campaign), 1)
})

test('a campaign that does not exist is remembered as such, and one not approved yet does not exist', async () => {
  const id = makeCampaignId(crypto.getRandomValues(new Uint8Array(16)), world.ring('campaignIdKeys'))
  const draft = await world.campaign({ primed: false, state: 'DRAFT' })
  for (const campaignId of [id, draft.id]) {
    for (let i = 0; i < 5; i++) {
      const answer = await world.call(`/v1/campaigns/${campaignId}`)
      assert.deepEqual([answer.status, answer.body.code], [404, 'CAMPAIGN_NOT_FOUND'])
      assert.equal(answer.headers.get('Cache-Control'), 'no-store')
    }
    assert.equal(world.core.calls.filter(({ path }) => path.endsWith(campaignId)).length, 1)
  }
})

test('with the core away the last known view goes on, without waiting, and gives claim tokens too', async () => {
  for (const fault of ['fail', 'hang'] as const) {
    const campaign = await world.campaign()
    await view(campaign)
    world.core.fault = fault
    const requests = world.core.requests
    const hasAsked = async () => {
      assert.equal((await view(campaign)).status, 200, fault)
      return world.core.requests > requests
    }
    await until(hasAsked, 'the core was never asked again', 20_000, 50)
    for (let i = 0; i < 10; i++) {
      const sentAt = Date.now()
      assert.equal((await view(campaign)).status, 200)
      assert.ok(Date.now() - sentAt < limits.coreTimeoutMs, 'those after the first wait for nothing')
    }
    assert.equal(
      (await world.claim(campaign.id, { token: await world.token(campaign, 'ann'), key: 'k' })).status,
      202,
    )
    world.core.fault = 'none'
    await untilStale(campaign)
  }
})

test('with the core away and nothing known it is UNAVAILABLE with a time, and nothing internal leaks', async () => {
  for (const fault of ['fail', 'hang'] as const) {
    const campaign = await world.campaign({ primed: false })
    world.core.fault = fault
    const headers = { Authorization: `Bearer ${await world.login('ann')}`, 'Device-Id': device }
    for (const answer of [await view(campaign), await world.askToken(campaign.id, headers)]) {
      assert.deepEqual([answer.status, answer.body.code], [503, 'UNAVAILABLE'], fault)
      assert.equal(answer.headers.get('Retry-After'), '1')
      assert.doesNotMatch(answer.text, /SELECT|secret|fetch|127\.0\.0\.1|HTTP|stack/)
    }
    world.core.fault = 'none'
    await until(async () => (await view(campaign)).status === 200, 'the view never came back', 20_000, 100)
  }
})

test('claim tokens: not before the lead time, from then on with a window that covers the start', async () => {
  const headers = { Authorization: `Bearer ${await world.login('ann')}`, 'Device-Id': device }
  const far = await world.campaign({ primed: false, startsInMs: limits.tokenLeadMs + 60_000 })
  const early = await world.askToken(far.id, headers)
  assert.deepEqual([early.status, early.body.code], [409, 'NOT_STARTED'])
  assert.equal(Date.parse(early.body.starts_at!), far.snapshot.starts_at_ms)
  assert.equal(
    Date.parse(String(early.body['token_opens_at'])),
    far.snapshot.starts_at_ms - limits.tokenLeadMs,
  )
  assert.ok(Date.parse(early.body.server_time!) > 0)

  const near = await world.campaign({ primed: false, startsInMs: limits.tokenLeadMs - 60_000 })
  const answer = await world.askToken(near.id, headers)
  assert.equal(answer.status, 201)
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  assert.deepEqual(Object.keys(answer.body), ['claim_token', 'not_before', 'expires_at'])
  assert.equal(Date.parse(String(answer.body['not_before'])), near.snapshot.starts_at_ms)
  assert.ok(
    Date.parse(String(answer.body['expires_at'])) >= near.snapshot.starts_at_ms + limits.tokenLifetimeMs,
  )
})

test('claim tokens of campaigns that are over or cancelled: ENDED, VOIDED', async () => {
  const headers = { Authorization: `Bearer ${await world.login('ann')}`, 'Device-Id': device }
  const over = await world.campaign({ primed: false, endsInMs: -1 })
  const voided = await world.campaign({ primed: false, state: 'VOIDED' })
  for (const [campaign, code] of [
    [over, 'ENDED'],
    [voided, 'VOIDED'],
  ] as const) {
    const answer = await world.askToken(campaign.id, headers)
    assert.deepEqual([answer.status, answer.body.code], [410, code])
  }
})
