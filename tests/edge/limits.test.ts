import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { bounds } from '../../edge/bounds.ts'
import { sealClaimToken } from '../../schema/tokens.ts'
import { startGateway } from '../../stack/gateway/server.ts'
import { until } from '../../stack/process.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { type Answer, type Campaign, World } from './world.ts'

/** Limits in workerd (CL4): each part of them in a world whose other limits are wide. */

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const wide = ['token', 'claim', 'read']
  .flatMap((route) => [`${route}.user=100000/1m:50000`, `${route}.device=100000/1m:50000`])
  .join()
const limits =
  'token.user=1/1s,token.address=4/1m:3,token.site=9/1m:8,claim.user=3/1m:2,claim.address=5/1m:4,read.user=3/1m:2'

let users = 0
const fresh = () => `user-${users++}`

async function ask(world: World, campaign: Campaign, user: string, headers: Record<string, string> = {}) {
  const login = await world.login(user)
  return world.askToken(campaign.id, { Authorization: `Bearer ${login}`, 'Device-Id': user, ...headers })
}

function assertLimited(answer: Answer): number {
  assert.equal(answer.status, 429, answer.text)
  assert.equal(answer.body.code, 'RATE_LIMITED')
  const waitMs = answer.body.retry_after_ms!
  assert.ok(waitMs > 0)
  assert.equal(answer.headers.get('Retry-After'), String(Math.ceil(waitMs / 1000)))
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  return waitMs
}

async function untilPast(atMs: number): Promise<void> {
  while (Date.now() <= atMs) await new Promise((resolve) => setTimeout(resolve, atMs - Date.now() + 1))
}

/** A genuine token for this user, without asking for it. */
function minted(world: World, campaign: Campaign, userId: string, tokenId = 'AAAAAAAAA'): string {
  const nowMs = Date.now()
  const window = { notBeforeMs: nowMs - 60_000, expiresAtMs: nowMs + 60_000 }
  const token = { campaignId: campaign.id, bucket: 0, userId, deviceHash: 'deviceha', tokenId, ...window }
  return sealClaimToken({ ...token, terms: 'stream' }, world.ring('claimTokenKeys'))
}

describe('limits', () => {
  let world: World
  before(async () => {
    world = await World.start({ bindings: { LIMITS: `${wide},${limits}` } })
  })
  after(() => world.stop())

  it('let a user have one claim token a second, and say exactly when the next can be had', async () => {
    const campaign = await world.campaign()
    let user: string
    let second: Answer
    let tries = 0
    // A machine that stalls for the second between the two says nothing.
    do {
      user = fresh()
      const beganAt = Date.now()
      assert.equal((await ask(world, campaign, user)).status, 201)
      second = await ask(world, campaign, user)
      if (Date.now() - beganAt < 1_000) break
    } while (second.status === 201 && ++tries < 10)
    const waitMs = assertLimited(second)
    assert.ok(waitMs <= 1_000)
    await untilPast(Date.now() + waitMs)
    assert.equal((await ask(world, campaign, user)).status, 201)
  })

  it('take all addresses of one /64 for one, and a /48 for one more (case-K1)', async () => {
    const campaign = await world.campaign()
    const from = (address: string) => ask(world, campaign, fresh(), { 'CF-Connecting-IP': address })
    for (let i = 0; i < 3; i++) assert.equal((await from(`2001:db8:1:1::${i}`)).status, 201)
    assertLimited(await from('2001:db8:1:1:ffff:ffff:ffff:ffff'))
    // Other /64s of the same /48, until that is full too.
    for (let i = 2; i < 7; i++) assert.equal((await from(`2001:db8:1:${i}::1`)).status, 201)
    assertLimited(await from('2001:db8:1:ff00::1'))
    assert.equal((await from('2001:db8:2:1::1')).status, 201)
  })

  it('know an IPv4 address also when it is written as IPv6', async () => {
    const campaign = await world.campaign()
    const from = (address: string) => ask(world, campaign, fresh(), { 'CF-Connecting-IP': address })
    for (let i = 0; i < 3; i++) assert.equal((await from('192.0.2.1')).status, 201)
    assertLimited(await from('::ffff:192.0.2.1'))
    assert.equal((await from('192.0.2.2')).status, 201)
  })

  it('believe only the platform’s word for an address (card A4)', async () => {
    const campaign = await world.campaign()
    const answers: number[] = []
    for (let i = 0; i < 5; i++) {
      const spoofed = `203.0.113.${i}`
      const headers = {
        'X-Forwarded-For': spoofed,
        'X-Real-IP': spoofed,
        Forwarded: `for=${spoofed}`,
        'True-Client-IP': spoofed,
        'CF-Connecting-IPv6': '2001:db8::9',
        'CF-Connecting-IP': '198.51.100.1',
      }
      answers.push((await ask(world, campaign, fresh(), headers)).status)
    }
    assert.deepEqual(answers, [201, 201, 201, 429, 429])
  })

  it('refuse an address that is not exactly one address', async () => {
    const campaign = await world.campaign()
    for (const address of ['198.51.100.1, 198.51.100.2', 'x', '198.51.100.1:80', '2001:db8::1%eth0']) {
      const answer = await ask(world, campaign, fresh(), { 'CF-Connecting-IP': address })
      assert.equal(answer.status, 400, address)
    }
  })

  it('bound a user’s claims and an address’s, without a command to Redis for what they refuse', async () => {
    const campaign = await world.campaign()
    const user = fresh()
    const token = minted(world, campaign, user)
    for (let i = 0; i < 2; i++)
      assert.equal((await world.claim(campaign.id, { token, key: 'k' })).status, 202)
    const calls = async () => (await world.bucket(campaign)).accepted
    const accepted = await calls()
    assertLimited(await world.claim(campaign.id, { token, key: 'k' }))
    const headers = { 'CF-Connecting-IP': '203.0.113.77' }
    for (let i = 0; i < 4; i++) {
      const mine = minted(world, campaign, fresh(), `AAAAAAAA${i}`)
      assert.equal((await world.claim(campaign.id, { token: mine, key: 'k', headers })).status, 202)
    }
    assertLimited(
      await world.claim(campaign.id, { token: minted(world, campaign, fresh()), key: 'k', headers }),
    )
    assert.equal(await calls(), accepted + 4)
  })

  it('bound a user’s reads', async () => {
    const headers = { Authorization: `Bearer ${await world.login(fresh())}` }
    for (let i = 0; i < 2; i++) assert.equal((await world.call('/v1/me/coupons', { headers })).status, 503)
    assertLimited(await world.call('/v1/me/coupons', { headers }))
  })

  it('of a campaign’s own rules hold in it and nowhere else, on the path of claims too', async () => {
    const campaign = await world.campaign()
    campaign.snapshot.guards = {
      limits: {
        token: { campaign: { count: 3, per_ms: 60_000, burst: 2 } },
        claim: { campaign: { count: 1, per_ms: 60_000 } },
      },
    }
    const answers = [await ask(world, campaign, fresh()), await ask(world, campaign, fresh())]
    for (const answer of answers) assert.equal(answer.status, 201, answer.text)
    assertLimited(await ask(world, campaign, fresh()))
    assert.equal((await ask(world, await world.campaign(), fresh())).status, 201)
    const [first, second] = answers.map((answer) => answer.body['claim_token'] as string)
    // A forged claim takes nothing of what genuine ones may have.
    for (let i = 0; i < 3; i++)
      assert.equal((await world.claim(campaign.id, { token: `${first}x`, key: 'k' })).status, 401)
    assert.equal((await world.claim(campaign.id, { token: first!, key: 'k' })).status, 202)
    assertLimited(await world.claim(campaign.id, { token: second!, key: 'k' }))
  })
})

describe('limits of a location', () => {
  it('shed what comes to one campaign once the platform’s counter is over, and other campaigns go on', async () => {
    const folder = temporaryFolder('wrangler')
    const config = join(folder, 'wrangler.toml')
    const low = readFileSync(join(ROOT, 'wrangler.toml'), 'utf8')
      .replace('main = "', `main = "${ROOT}`)
      .replace('directory = "', `directory = "${ROOT}`)
      .replace('simple = { limit = 500, period = 10 }', 'simple = { limit = 1, period = 60 }')
    writeFileSync(config, low)
    const world = await World.start({ config })
    try {
      const campaign = await world.campaign()
      const deadline = Date.now() + 90_000
      let answer = await ask(world, campaign, fresh())
      assert.equal(answer.status, 201, answer.text)
      // The counter is asked once in 1,000 requests.
      while (answer.status === 201 && Date.now() < deadline) answer = await ask(world, campaign, fresh())
      assert.ok(assertLimited(answer) <= 1_000)
      assert.equal((await ask(world, await world.campaign(), fresh())).status, 201)
    } finally {
      await world.stop()
    }
  })
})

describe('limits of token issue', () => {
  it('hold in all isolates together', async () => {
    const first = await World.start()
    const gateway = await startGateway({ redisUrl: first.redis.url, token: 't', port: 0, strictKeys: true })
    const bindings = {
      LIMITS: `${wide},token.user=1/1m`,
      LIMITS_REDIS_REST_URL: gateway.url,
      LIMITS_REDIS_REST_TOKEN: 't',
    }
    const worlds = await Promise.all([World.start({ bindings }), World.start({ bindings })])
    try {
      const user = fresh()
      const answers: Answer[] = []
      for (const world of worlds) answers.push(await ask(world, await world.campaign(), user))
      assert.equal(answers[0]!.status, 201)
      const waitMs = assertLimited(answers[1]!)
      assert.ok(waitMs > 50_000 && waitMs <= 60_000)
    } finally {
      await Promise.all(worlds.map((world) => world.stop()))
      await gateway.close()
      await first.stop()
    }
  })

  it('that can’t be asked let nobody through, and claims go on (case-K3)', async () => {
    let fault: 'hang' | 'fail' = 'hang'
    const server: Server = createServer((_, response) => {
      if (fault === 'fail') response.writeHead(500).end('{"error":"ERR internal"}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const world = await World.start({
      bindings: { LIMITS_REDIS_REST_URL: url, LIMITS_REDIS_REST_TOKEN: 't' },
    })
    try {
      const campaign = await world.campaign()
      const unavailable = async () => {
        const answer = await ask(world, campaign, fresh())
        assert.equal(answer.status, 503, answer.text)
        assert.equal(answer.body.code, 'UNAVAILABLE')
        assert.ok(answer.headers.get('Retry-After'))
      }
      const began = Date.now()
      await unavailable()
      assert.ok(Date.now() - began < bounds.guardStoreTimeoutMs + 4_000, 'a caller does not hang')
      fault = 'fail'
      await unavailable()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
      await unavailable()
      // What went wrong is logged, without the user that the command named. A log comes behind its answer.
      await until(() => /guards: Redis/.test(world.log()), 'nothing was logged', 20_000)
      assert.doesNotMatch(world.log(), /user-\d/)
      const token = minted(world, campaign, fresh())
      assert.equal((await world.claim(campaign.id, { token, key: 'k' })).status, 202)
    } finally {
      server.closeAllConnections()
      server.close()
      await world.stop()
    }
  })

  it('have an address to go by, or nobody is let through (case-E3)', async () => {
    const world = await World.start({ bindings: { CLIENT_ADDRESS: 'required' } })
    try {
      const campaign = await world.campaign()
      assert.equal((await ask(world, campaign, fresh())).status, 400)
      assert.equal(
        (await world.claim(campaign.id, { token: minted(world, campaign, 'ann'), key: 'k' })).status,
        400,
      )
      const headers = { 'CF-Connecting-IP': '192.0.2.1' }
      assert.equal((await ask(world, campaign, fresh(), headers)).status, 201)
    } finally {
      await world.stop()
    }
  })
})
