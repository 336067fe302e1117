import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { unpackRecords } from '../../schema/acceptance.ts'
import type { Guards } from '../../schema/guards.ts'
import { unsealClaimToken } from '../../schema/tokens.ts'
import { TurnstileDouble } from './turnstileDouble.ts'
import { type Answer, type Campaign, World } from './world.ts'

/** Who is offered a campaign (CL5, CL17, case-A14), in workerd. */

const turnstile = new TurnstileDouble()
let world: World
before(async () => {
  await turnstile.start()
  world = await World.start({
    bindings: {
      BLOCKED_NETWORKS: '203.0.113.0/24, 2001:db8:bad::/48',
      BLOCKED_DEVICES: 'stolen-phone',
      BLOCKED_USERS: 'mallory',
      TURNSTILE_SECRET: turnstile.secret,
      TURNSTILE_VERIFY_URL: turnstile.url,
    },
  })
})
after(async () => {
  await world.stop()
  await turnstile.stop()
})

async function guarded(guards: Guards): Promise<Campaign> {
  const campaign = await world.campaign()
  campaign.snapshot.guards = guards
  return campaign
}

async function ask(campaign: Campaign, user: string, headers: Record<string, string> = {}): Promise<Answer> {
  const login = await world.login(user)
  return world.askToken(campaign.id, { Authorization: `Bearer ${login}`, 'Device-Id': user, ...headers })
}

/** What risk rules count starts anew with each window: not while the test counts. A day ends with one of its hours. */
async function untilFarFromBorder(perMs: number): Promise<void> {
  const leftMs = perMs - (Date.now() % perMs)
  if (leftMs < 20_000) await new Promise((resolve) => setTimeout(resolve, leftMs + 1))
}

function assertIneligible(answer: Answer, reason: string): void {
  assert.equal(answer.status, 403, answer.text)
  assert.equal(answer.body.code, 'NOT_ELIGIBLE')
  assert.equal(answer.body['reason'], reason)
}

function termsOf(answer: Answer): string | undefined {
  assert.equal(answer.status, 201, answer.text)
  return unsealClaimToken(answer.body['claim_token'] as string, world.ring('claimTokenKeys'))?.terms
}

describe('a rollout', () => {
  it('by share offers the campaign to a part of the users, and always to the same ones', async () => {
    const users = Array.from({ length: 60 }, (_, i) => `user-${i}`)
    const campaign = await guarded({ rollout: { basis_points: 5_000 } })
    const statuses = async () => Promise.all(users.map(async (user) => (await ask(campaign, user)).status))
    const first = await statuses()
    const offered = first.filter((status) => status === 201).length
    assert.ok(offered > 10 && offered < 50, `${offered} of 60`)
    assert.deepEqual(await statuses(), first)
    assertIneligible(await ask(campaign, users[first.indexOf(403)]!), 'ROLLOUT')
  })

  it('by channel and client version offers it to what fits, and not to what does not say', async () => {
    const campaign = await guarded({
      rollout: { channels: ['app'], client_version: { min: '2.10', max: '3' } },
    })
    const app = { 'Client-Channel': 'app' }
    assertIneligible(await ask(campaign, 'ann'), 'CHANNEL')
    assertIneligible(await ask(campaign, 'ann', { 'Client-Channel': 'web' }), 'CHANNEL')
    assertIneligible(await ask(campaign, 'ann', app), 'CLIENT_VERSION')
    for (const version of ['2.9', '3.0.1', '2.10-beta', '99999999'])
      assertIneligible(await ask(campaign, 'ann', { ...app, 'Client-Version': version }), 'CLIENT_VERSION')
    for (const version of ['2.10', '2.11.3', '3.0.0'])
      assert.equal((await ask(campaign, 'ann', { ...app, 'Client-Version': version })).status, 201, version)
  })

  it('by region is closed to whoever’s region the platform does not tell, whatever headers say', async () => {
    const campaign = await guarded({ rollout: { regions: ['CN'] } })
    assertIneligible(await ask(campaign, 'ann', { 'CF-IPCountry': 'CN', 'X-Country': 'CN' }), 'REGION')
  })
})

describe('an audience', () => {
  it('is offered the campaign, and nobody else is (case-A14)', async () => {
    const campaign = await guarded({ audience: { users: ['tester-1', 'tester-2'] } })
    assert.equal((await ask(campaign, 'tester-1')).status, 201)
    assertIneligible(await ask(campaign, 'ann'), 'AUDIENCE')
  })
})

describe('block lists', () => {
  it('of the platform refuse addresses, devices and users, for tokens and for claims', async () => {
    const campaign = await world.campaign()
    for (const address of ['203.0.113.9', '::ffff:203.0.113.9', '2001:db8:bad:1::1'])
      assertIneligible(await ask(campaign, 'ann', { 'CF-Connecting-IP': address }), 'DECLINED')
    assertIneligible(await ask(campaign, 'mallory'), 'DECLINED')
    assertIneligible(await ask(campaign, 'ann', { 'Device-Id': 'stolen-phone' }), 'DECLINED')
    const token = await world.token(campaign, 'ann')
    const headers = { 'CF-Connecting-IP': '203.0.113.9' }
    assertIneligible(await world.claim(campaign.id, { token, key: 'k', headers }), 'DECLINED')
    assert.equal((await world.claim(campaign.id, { token, key: 'k' })).status, 202)
  })

  it('keep nobody from what is theirs already', async () => {
    world.core.answer = (_, response) =>
      response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"data":[]}')
    const headers = {
      Authorization: `Bearer ${await world.login('mallory')}`,
      'CF-Connecting-IP': '203.0.113.9',
    }
    assert.equal((await world.call('/v1/me/coupons', { headers })).status, 200)
  })

  it('of a campaign also stop tokens that were issued before', async () => {
    const campaign = await world.campaign()
    const token = await world.token(campaign, 'ann')
    campaign.snapshot.config_version += 1
    campaign.snapshot.guards = { blocked: { users: ['ann'] } }
    const deadline = Date.now() + 20_000
    for (;;) {
      const answer = await world.claim(campaign.id, { token, key: 'k' })
      if (answer.status === 403) break
      assert.ok(Date.now() < deadline, 'the list did not arrive')
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })

  it('of one campaign mean nothing to another', async () => {
    await guarded({ blocked: { users: ['bob'] } })
    assert.equal((await ask(await world.campaign(), 'bob')).status, 201)
  })
})

describe('risk', () => {
  const reputation = (score: number): Guards['risk'] => ({
    rules: [{ kind: 'address_reputation', networks: ['192.0.2.0/24'], score }],
    challenge_at: 10,
    review_at: 20,
    deny_at: 30,
  })
  const from = { 'CF-Connecting-IP': '192.0.2.1' }

  it('allows what is under every threshold', async () => {
    assert.equal(termsOf(await ask(await guarded({ risk: reputation(9)! }), 'ann', from)), 'stream')
    assert.equal(termsOf(await ask(await guarded({ risk: reputation(99)! }), 'ann')), 'stream')
  })

  it('challenges: a solved one buys a usual token', async () => {
    const campaign = await guarded({ risk: reputation(10)! })
    const answer = await ask(campaign, 'ann', from)
    assert.equal(answer.status, 403)
    assert.equal(answer.body.code, 'CHALLENGE_REQUIRED')
    const solved = { ...from, 'Turnstile-Response': turnstile.solve() }
    assert.equal(termsOf(await ask(campaign, 'ann', solved)), 'stream')
  })

  it('reviews: the claim is accepted like any other, and held', async () => {
    const campaign = await guarded({ risk: reputation(20)! })
    const issued = await ask(campaign, 'ann', from)
    assert.equal(termsOf(issued), 'held')
    const token = issued.body['claim_token'] as string
    const claimed = await world.claim(campaign.id, { token, key: 'k' })
    assert.equal(claimed.status, 202)
    assert.equal(claimed.body['status'], 'ACCEPTED')
    const field = await world.client.hget(`tg:{${campaign.id}:0}:users`, 'ann')
    assert.equal(unpackRecords(field!)[0]!.state, 'V')
    const replayed = await world.claim(campaign.id, { token, key: 'k' })
    assert.equal(replayed.headers.get('Idempotency-Replayed'), 'true')
    assert.equal(replayed.text, claimed.text)
  })

  it('denies, without saying why', async () => {
    const answer = await ask(await guarded({ risk: reputation(30)! }), 'ann', from)
    assertIneligible(answer, 'DECLINED')
    assert.doesNotMatch(answer.text, /risk|score|reputation|192\.0\.2/i)
  })

  it('sees a device that many users share, and a user who asks too often', async () => {
    await untilFarFromBorder(3_600_000)
    const sharing = await guarded({
      risk: { rules: [{ kind: 'device_sharing', users: 2, per_ms: 3_600_000, score: 5 }], deny_at: 5 },
    })
    const shared = { 'Device-Id': 'one-phone' }
    const outcomes: number[] = []
    for (const user of ['u1', 'u2', 'u1', 'u3', 'u4'])
      outcomes.push((await ask(sharing, user, shared)).status)
    assert.deepEqual(outcomes, [201, 201, 201, 403, 403])
    assert.equal((await ask(sharing, 'u5')).status, 201)

    const quick = await guarded({
      risk: { rules: [{ kind: 'velocity', of: 'user', count: 2, per_ms: 86_400_000, score: 5 }], deny_at: 5 },
    })
    const again: number[] = []
    for (let i = 0; i < 3; i++) again.push((await ask(quick, 'u9')).status)
    assert.deepEqual(again, [201, 201, 403])
    const ttl = await world.client.pttl((await world.client.keys('tg:risk:*'))[0]!)
    assert.ok(ttl > 0, 'what is counted is forgotten again')
  })
})

describe('guards that the gate does not understand', () => {
  it('let nobody through', async () => {
    const rules = [{ kind: 'moon_phase', score: 1 }] as unknown as NonNullable<Guards['risk']>['rules']
    assert.equal((await ask(await guarded({ risk: { rules, deny_at: 5 } }), 'ann')).status, 503)
    assert.equal((await ask(await guarded({ blocked: { networks: ['300.1.1.1'] } }), 'ann')).status, 503)
  })
})
