import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { type Bucket, gateKey, logKey, usersKey } from '../../lua/keys.ts'
import type { ScriptRunner } from '../../lua/runner.ts'
import { compensate, renewLease, snapshot } from '../../lua/stock.ts'
import { withdraw } from '../../lua/transfer.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { startCompensator } from '../claim/compensate.ts'
import { startDrain } from '../claim/drain.ts'
import { claimArgs, claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { findActive } from '../guardian/active.ts'
import { startGuardian } from '../guardian/guardian.ts'
import { checkIdentity, type Finding } from '../guardian/identity.ts'
import { advanceTransfers, planTransfers } from '../stock/transfer.ts'
import { type RebuildOrder, rebuildBucket } from './rebuild.ts'
import { makeRecovery } from './recover.ts'

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

const order = (bucket: Bucket, more: Partial<RebuildOrder> = {}): RebuildOrder => ({
  bucket,
  cause: 'test',
  actor: 'tester',
  role: 'operator',
  force: false,
  ...more,
})

let drains = 0
/** Drains until the bucket's log is empty. */
async function drained(bucket: Bucket): Promise<void> {
  const drain = startDrain(ground.deps, { consumer: `rebuild-${++drains}` })
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 15_000)
  await drain.stop()
}

async function findingOf(bucket: Bucket): Promise<Finding> {
  const active = await findActive(ground.deps)
  const [finding] = await checkIdentity(
    ground.deps,
    active.filter(
      ({ campaignId, bucket: number }) => campaignId === bucket.campaignId && number === bucket.bucket,
    ),
  )
  return finding!
}

async function lose(bucket: Bucket): Promise<void> {
  await ground.redis.del(gateKey(bucket), usersKey(bucket), logKey(bucket))
}

async function rebuilt(bucket: Bucket, more: Partial<RebuildOrder> = {}) {
  const result = await rebuildBucket(ground.deps, order(bucket, more))
  assert.equal(result.outcome, 'rebuilt', JSON.stringify(result))
  return result.outcome === 'rebuilt' ? result.numbers : assert.fail()
}

const decisions = async (bucket: Bucket, users: string[]) =>
  (await claim(ground.deps.runner, bucket, users.map(claimArgs))).verdicts.map(({ decision }) => decision)

describe('a rebuild from the ledger', () => {
  it('restores stock, replays and limits after a total loss, under an epoch never seen before (IS10)', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    const mine = claimArgs('ann')
    const first = await claim(ground.deps.runner, bucket, [mine, claimArgs('bob')])
    await drained(bucket)
    const before = (await snapshot(ground.deps.runner, bucket))!
    await lose(bucket)
    assert.deepEqual((await findingOf(bucket)).holds, false)
    const numbers = await rebuilt(bucket)
    assert.deepEqual([numbers.allocated, numbers.remaining, numbers.accepted], [10, 8, 2])
    assert.ok(numbers.epoch > before.epoch + 1_000_000)
    const gate = (await snapshot(ground.deps.runner, bucket))!
    assert.ok(gate.leaseUntilMs <= gate.nowMs, 'it has no lease before the guardian gives one')
    assert.equal(gate.watermark, before.watermark)
    assert.deepEqual(await findingOf(bucket), { holds: true })
    await renewLease(ground.deps.runner, bucket, 60_000, true)
    const again = await claim(ground.deps.runner, bucket, [mine, claimArgs('bob'), claimArgs('cid')])
    assert.deepEqual(
      again.verdicts.map(({ decision }) => decision),
      ['REPLAYED', 'LIMIT_REACHED', 'ACCEPTED'],
    )
    assert.equal(again.verdicts[0]!.requestId, first.verdicts[0]!.requestId)
  })

  it('waits for the entries that are still in the log: they may be the only word of their claims', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await claimFor(ground, bucket, people(4))
    const [result] = await Promise.all([rebuildBucket(ground.deps, order(bucket)), drained(bucket)])
    assert.equal(result.outcome, 'rebuilt')
    assert.equal((await snapshot(ground.deps.runner, bucket))!.remaining, 6)
    assert.deepEqual(await findingOf(bucket), { holds: true })
  })

  it('never sells twice what a failover forgot (case-H18)', async () => {
    const bucket = await openCampaign(ground, { quota: 20 })
    await claimFor(ground, bucket, people(5))
    await drained(bucket)
    const dumps = await Promise.all([gateKey, usersKey].map((key) => ground.redis.dumpBuffer(key(bucket))))
    await claimFor(ground, bucket, people(10, 'late'))
    await drained(bucket)
    await ground.redis.restore(gateKey(bucket), 0, dumps[0]!, 'REPLACE')
    await ground.redis.restore(usersKey(bucket), 0, dumps[1]!, 'REPLACE')
    assert.equal((await snapshot(ground.deps.runner, bucket))!.remaining, 15)
    const finding = await findingOf(bucket)
    assert.equal(finding.holds ? '' : finding.why, 'redis_forgot')
    assert.equal((await rebuilt(bucket)).remaining, 5)
    await renewLease(ground.deps.runner, bucket, 60_000, true)
    assert.deepEqual(new Set(await decisions(bucket, people(10, 'late'))), new Set(['LIMIT_REACHED']))
  })

  it('is done by one of two that see the same loss', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await lose(bucket)
    const results = await Promise.all(
      [1, 2].map(() => rebuildBucket(ground.deps, order(bucket, { expectedEpoch: 1 }))),
    )
    const outcomes = results.map(({ outcome }) => outcome).sort()
    assert.ok(['busy,rebuilt', 'not_needed,rebuilt'].includes(outcomes.join()), outcomes.join())
  })

  it('stays closed when Redis loses its data again in the middle, and succeeds the next time', async () => {
    const bucket = await openCampaign(ground, { quota: 100 })
    await claimFor(ground, bucket, people(50))
    await drained(bucket)
    await lose(bucket)
    const { runner } = ground.deps
    const unlucky: ScriptRunner = {
      async run(script, keys, args) {
        if (script.name.startsWith('rebuild_finish')) await lose(bucket)
        return runner.run(script, keys, args)
      },
    }
    const result = await rebuildBucket({ ...ground.deps, runner: unlucky }, order(bucket))
    assert.equal(result.outcome, 'lost_again')
    assert.equal(await snapshot(runner, bucket), undefined)
    assert.equal((await rebuilt(bucket)).remaining, 50)
  })

  it('returns the stock of rejected claims itself, once, also when Redis sold again what it had forgotten (IS6)', async () => {
    // Redis claimed more than there was: three coupons and two rejections, which hold no stock of the bucket.
    const bucket = await openCampaign(ground, { quota: 3, gateStock: 5 })
    await claimFor(ground, bucket, people(5))
    await drained(bucket)
    await lose(bucket)
    const numbers = await rebuilt(bucket)
    assert.deepEqual([numbers.accepted, numbers.returned, numbers.remaining], [5, 2, 0])
    assert.equal(numbers.written_off, 0)
    assert.deepEqual(await findingOf(bucket), { holds: true })
    const compensator = startCompensator(ground.deps)
    const open = async () =>
      (
        await ground.sql`SELECT 1 FROM compensations WHERE campaign_id = ${bucket.campaignId} AND state <> 'CLOSED'`
      ).length
    await until(async () => (await open()) === 0, 'not closed', 15_000)
    await compensator.stop()
    const gate = (await snapshot(ground.deps.runner, bucket))!
    assert.deepEqual([gate.accepted, gate.returned, gate.remaining], [5, 2, 0])
    // Asked once more, as an answer that was under way would: the gate has returned it already.
    const [debt] = await ground.sql`
      SELECT user_id, request_id::text FROM compensations WHERE campaign_id = ${bucket.campaignId} LIMIT 1`
    const again = await compensate(ground.deps.runner, bucket, debt!['user_id'], debt!['request_id'])
    assert.equal(again, 'already')
    assert.equal((await snapshot(ground.deps.runner, bucket))!.remaining, 0)
  })

  it('counts stock in transit once, also when the transfer goes on afterwards', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await ground.deps.db.admin.transaction((tx) =>
      planTransfers(tx, bucket.campaignId, 'collect', [{ from: 0, to: null, amount: 4 }], Date.now()),
    )
    const [planned] =
      await ground.sql`SELECT transfer_id FROM transfers WHERE campaign_id = ${bucket.campaignId}`
    // Redis gave it, and the process died before the ledger knew.
    await withdraw(ground.deps.runner, bucket, planned!['transfer_id'], 4)
    assert.deepEqual(await findingOf(bucket), { holds: true })
    await lose(bucket)
    assert.equal((await rebuilt(bucket)).remaining, 10)
    await advanceTransfers(ground.deps, bucket.campaignId)
    assert.equal((await snapshot(ground.deps.runner, bucket))!.remaining, 6)
    assert.deepEqual(await findingOf(bucket), { holds: true })
    await lose(bucket)
    assert.equal((await rebuilt(bucket)).remaining, 6)
    assert.deepEqual(await findingOf(bucket), { holds: true })
  })

  it('leaves the bucket open when the ledger’s own numbers don’t add up, until an operator says so', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await ground.sql`UPDATE campaign_stock SET unallocated = 1 WHERE campaign_id = ${bucket.campaignId}`
    assert.equal((await rebuildBucket(ground.deps, order(bucket))).outcome, 'unbalanced')
    assert.notEqual(await snapshot(ground.deps.runner, bucket), undefined)
    await rebuilt(bucket, { force: true })
    const [row] = await ground.sql`
      SELECT actor, reason FROM audit_log WHERE target = ${bucket.campaignId} AND action = 'bucket.rebuild'`
    assert.deepEqual({ ...row }, { actor: 'tester', reason: 'test' })
  })

  it('takes seconds for 100,000 records', async () => {
    const bucket = await openCampaign(ground, { quota: 100_000 })
    await ground.sql`
      INSERT INTO claims (user_id, request_id, campaign_id, bucket, rule_version, status, coupon_id, entry_ms, entry_seq,
        key_fingerprint, params_fingerprint, token_id, accepted_at, settled_at)
      SELECT 'user-' || n, ('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, ${bucket.campaignId}, 0, 1,
        'DELIVERED', gen_random_uuid(), extract(epoch FROM now())::bigint * 1000, n, 'keykeykey', 'par1', 'tokentoke',
        now(), now()
      FROM generate_series(1, 100000) n`
    const began = performance.now()
    const numbers = await rebuilt(bucket)
    const seconds = (performance.now() - began) / 1000
    assert.deepEqual([numbers.users, numbers.remaining], [100_000, 0])
    assert.ok(seconds < 20, `${seconds} s`)
  })
})

describe('the guardian, with recovery', () => {
  it('opens a bucket again by itself after a total loss, while claims go on (IS10, case-H10)', async () => {
    // Else all of theirs would be lost too, and healed before it.
    await ground.sql`UPDATE campaigns SET state = 'ENDED', updated_at = now() - interval '1 day'`
    const bucket = await openCampaign(ground, { quota: 1_000 })
    const drain = startDrain(ground.deps, { consumer: 'healing' })
    ground.deps.metrics.clear()
    const guardian = startGuardian(ground.deps, { recover: makeRecovery(ground.deps) })
    const leased = async () => {
      const gate = await snapshot(ground.deps.runner, bucket)
      return gate !== undefined && gate.leaseUntilMs > gate.nowMs
    }
    await until(leased, 'no lease', 30_000)
    await claimFor(ground, bucket, people(100))
    await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
    await ground.redis.flushall()
    await until(leased, 'not opened again', 60_000)
    const gate = (await snapshot(ground.deps.runner, bucket))!
    assert.deepEqual([gate.remaining, gate.users], [900, 100])
    assert.deepEqual(new Set(await decisions(bucket, people(50))), new Set(['LIMIT_REACHED']))
    await guardian.stop()
    await drain.stop()
  })
})
