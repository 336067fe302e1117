import assert from 'node:assert/strict'
import { after, before, beforeEach, it } from 'node:test'
import { TurnstileDouble } from './turnstileDouble.ts'
import { type Answer, type Campaign, World } from './world.ts'

const turnstile = new TurnstileDouble()
let world: World
let campaign: Campaign
before(async () => {
  await turnstile.start()
  world = await World.start({
    bindings: {
      TURNSTILE_SECRET: turnstile.secret,
      TURNSTILE_SITE_KEY: 'site-key',
      TURNSTILE_VERIFY_URL: turnstile.url,
      TURNSTILE_HOSTNAMES: 'shop.example,www.shop.example',
    },
  })
  campaign = await world.campaign()
  campaign.snapshot.guards = { turnstile: true }
})
after(async () => {
  await world.stop()
  await turnstile.stop()
})
beforeEach(() => {
  turnstile.fault = 'none'
})

let users = 0
async function ask(response?: string, more: Record<string, string> = {}): Promise<Answer> {
  const headers: Record<string, string> = {
    Authorization: `Bearer ${await world.login(`user-${users++}`)}`,
    'Device-Id': 'device-1',
    ...more,
  }
  if (response !== undefined) headers['Turnstile-Response'] = response
  return world.askToken(campaign.id, headers)
}

function assertChallenged(answer: Answer): void {
  assert.equal(answer.status, 403, answer.text)
  assert.equal(answer.body.code, 'CHALLENGE_REQUIRED')
  assert.equal(answer.body['site_key'], 'site-key')
  assert.equal(answer.body['action'], 'claim-token')
  assert.doesNotMatch(answer.text, /turnstile-secret/)
}

it('a solved challenge buys a claim token, and the verifier hears the secret, the response and the address', async () => {
  const response = turnstile.solve()
  const answer = await ask(response, { 'CF-Connecting-IP': '192.0.2.1' })
  assert.equal(answer.status, 201, answer.text)
  assert.deepEqual(turnstile.asked.at(-1), { secret: turnstile.secret, response, remoteip: '192.0.2.1' })
})

it('a response is good once', async () => {
  const response = turnstile.solve()
  assert.equal((await ask(response)).status, 201)
  assertChallenged(await ask(response))
})

it('of two that spend the same response at once, one is let through', async () => {
  const response = turnstile.solve()
  const answers = await Promise.all([ask(response), ask(response)])
  assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 403])
})

it('a response that is old, invented, for another action or from another page buys nothing', async () => {
  const tooOld = turnstile.solve({ solvedAtMs: Date.now() - 301_000 })
  for (const response of [
    tooOld,
    'invented',
    turnstile.solve({ action: 'login' }),
    turnstile.solve({ hostname: 'evil.example' }),
  ])
    assertChallenged(await ask(response))
})

it('without a response, or with one of no possible form, the verifier is not even asked', async () => {
  const asked = turnstile.asked.length
  assertChallenged(await ask())
  assertChallenged(await ask('x'.repeat(2_049)))
  assert.equal(turnstile.asked.length, asked)
})

it('a verifier that hangs, fails or is ill lets nobody through, soon', async () => {
  for (const fault of ['hang', 'fail', 'internal'] as const) {
    turnstile.fault = fault
    const began = Date.now()
    const answer = await ask(turnstile.solve())
    assert.equal(answer.status, 503, `${fault}: ${answer.text}`)
    assert.equal(answer.body.code, 'UNAVAILABLE')
    assert.ok(answer.headers.get('Retry-After'))
    assert.ok(Date.now() - began < 6_000)
  }
})

it('a deployment without a secret, or with a wrong one, issues no token where a challenge is asked for', async () => {
  for (const bindings of [{}, { TURNSTILE_SECRET: 'wrong', TURNSTILE_VERIFY_URL: turnstile.url }]) {
    const other = await World.start({ bindings })
    try {
      const guarded = await other.campaign()
      guarded.snapshot.guards = { turnstile: true }
      const headers = {
        Authorization: `Bearer ${await other.login('ann')}`,
        'Device-Id': 'd',
        'Turnstile-Response': turnstile.solve(),
      }
      assert.equal((await other.askToken(guarded.id, headers)).status, 503)
      const free = await other.campaign()
      assert.equal((await other.askToken(free.id, headers)).status, 201)
    } finally {
      await other.stop()
    }
  }
})
