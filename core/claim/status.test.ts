import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Bucket, gateKey, logKey } from '../../lua/keys.ts'
import { ArbiterError, type ScriptRunner } from '../../lua/runner.ts'
import { settle } from '../../lua/stock.ts'
import { timeOfRequestId } from '../../schema/acceptance.ts'
import { limits } from '../../schema/limits.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { startDrain } from './drain.ts'
import { readClaim } from './status.ts'
import { claimFor, type Ground, openCampaign, openGround } from './testing.ts'
import { readWallet } from './wallet.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

let drains = 0
async function drained(bucket: Bucket): Promise<void> {
  const drain = startDrain(ground.deps, { consumer: `drain-${++drains}` })
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
  await drain.stop()
}

const mute: ScriptRunner = {
  run: () => Promise.reject(new ArbiterError('unknown', 'no answer')),
}
const at = (ms: number) => () => Date.now() + ms

describe('a claim’s status', () => {
  it('is PROCESSING from the acceptance on, also before the ledger knows it, and asks for less polling with time', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const [accepted] = await claimFor(ground, bucket, ['ann'])
    const second = { ...ground.deps, clock: () => timeOfRequestId(accepted!.requestId) + 1_000 }
    const fresh = await readClaim(second, 'ann', accepted!.requestId)
    assert.deepEqual(fresh, {
      request_id: accepted!.requestId,
      status: 'PROCESSING',
      poll_after_ms: limits.pollAfterMs,
    })
    const hour = { ...ground.deps, clock: at(3_600_000) }
    const old = await readClaim(hour, 'ann', accepted!.requestId)
    assert.deepEqual([old.status, old.poll_after_ms], ['PROCESSING', limits.pollAfterMaxMs])
    await drained(bucket)
    const final = await readClaim(ground.deps, 'ann', accepted!.requestId)
    assert.deepEqual(
      [final.status, final.poll_after_ms, final.campaign_id],
      ['DELIVERED', undefined, bucket.campaignId],
    )
  })

  it('is REVIEW while a person must look at it', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const [accepted] = await claimFor(ground, bucket, ['bob'])
    await settle(ground.deps.runner, bucket, [], [{ ...accepted!, state: 'V' }])
    const { status } = await readClaim(ground.deps, 'bob', accepted!.requestId)
    assert.equal(status, 'REVIEW')
  })

  it('of an acceptance that nobody can look up is PROCESSING while young, and later “try again”, never “not found”', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const [accepted] = await claimFor(ground, bucket, ['cid'])
    const away = { ...ground.deps, runner: mute }
    assert.equal((await readClaim(away, 'cid', accepted!.requestId)).status, 'PROCESSING')
    const later = { ...away, clock: at(limits.oldestUnsettledMaxMs + 1_000) }
    await assert.rejects(readClaim(later, 'cid', accepted!.requestId), { code: 'UNAVAILABLE' })
    await ground.redis.del(gateKey(bucket))
    const gone = { ...ground.deps, clock: at(limits.oldestUnsettledMaxMs + 1_000) }
    await assert.rejects(readClaim(gone, 'cid', accepted!.requestId), { code: 'UNAVAILABLE' })
    await ground.sql`UPDATE campaigns SET state = 'VOIDED' WHERE campaign_id = ${bucket.campaignId}`
    await assert.rejects(readClaim(gone, 'cid', accepted!.requestId), { code: 'CLAIM_NOT_FOUND' })
  })
})

describe('the wallet', () => {
  it('pages by time and id: coupons of one instant are each shown once (case-L11)', async () => {
    const bucket = await openCampaign(ground, { quota: 30, perUserLimit: 25 })
    await claimFor(ground, bucket, Array(25).fill('dan'))
    await drained(bucket)
    const [distinct] =
      await ground.sql`SELECT count(DISTINCT issued_at)::int AS n FROM coupons WHERE user_id = 'dan'`
    assert.equal(distinct!['n'], 1)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await readWallet(ground.deps, { userId: 'dan', limit: 7, cursor })
      seen.push(...page.data.map((item) => item.coupon_id))
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
    assert.equal(seen.length, 25)
    assert.equal(new Set(seen).size, 25)
  })

  it('shows a coupon with the rules it was claimed under, only to its owner, and EXPIRED from its very instant', async () => {
    const bucket = await openCampaign(ground, { quota: 5, rules: { validity: { kind: 'days', days: 1 } } })
    await claimFor(ground, bucket, ['ede'])
    await drained(bucket)
    const [item] = (await readWallet(ground.deps, { userId: 'ede', limit: 10 })).data
    assert.equal(item!.campaign_id, bucket.campaignId)
    assert.deepEqual([item!.name, item!.state, item!.rule_version], ['Test', 'AVAILABLE', 1])
    assert.equal(item!.benefit.kind, 'amount_off')
    assert.deepEqual((await readWallet(ground.deps, { userId: 'eve', limit: 10 })).data, [])
    const end = new Date(item!.valid_to).getTime()
    for (const [nowMs, state] of [
      [end - 1, 'AVAILABLE'],
      [end, 'EXPIRED'],
    ] as const) {
      const then = { ...ground.deps, clock: () => nowMs }
      const states = (await readWallet(then, { userId: 'ede', limit: 10, status: state })).data.map(
        (one) => one.state,
      )
      assert.deepEqual(states, [state])
    }
  })
})

it('a wallet that was read before is brought up to date by what changed since, and nothing else', async () => {
  const [first, second] = [await openCampaign(ground, { quota: 5 }), await openCampaign(ground, { quota: 5 })]
  for (const bucket of [first, second]) {
    await claimFor(ground, bucket, ['sync-er'])
    await drained(bucket)
  }
  const before = await readWallet(ground.deps, { userId: 'sync-er', limit: 50 })
  assert.equal(before.data.length, 2)
  // Later than any change may be stamped before its commit.
  const later = { ...ground.deps, clock: at(60_000) }
  const { sync } = await readWallet(later, { userId: 'sync-er', limit: 50 })
  const nothing = await readWallet(later, { userId: 'sync-er', limit: 50, since: sync })
  assert.deepEqual(nothing.data, [])
  const [changed] = before.data
  await ground.sql`
    UPDATE coupons SET state = 'REVOKED', version = version + 1, updated_at = now() + interval '61 seconds'
    WHERE user_id = 'sync-er' AND coupon_id = ${changed!.coupon_id}`
  const news = await readWallet(later, { userId: 'sync-er', limit: 50, since: sync })
  assert.deepEqual(
    news.data.map(({ coupon_id, state, version }) => [coupon_id, state, version]),
    [[changed!.coupon_id, 'REVOKED', 2]],
  )
  const pages = await readWallet(ground.deps, { userId: 'sync-er', limit: 1, since: before.sync })
  const rest = await readWallet(ground.deps, {
    userId: 'sync-er',
    limit: 1,
    since: before.sync,
    cursor: pages.next_cursor!,
  })
  assert.equal(new Set([...pages.data, ...rest.data].map(({ coupon_id }) => coupon_id)).size, 2)
})
