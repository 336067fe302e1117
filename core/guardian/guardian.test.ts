import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { type Bucket, gateKey, logKey, usersKey } from '../../lua/keys.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { type Postgres, startPostgres } from '../../stack/postgres.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
  temporaryFolder,
} from '../../stack/testing.ts'
import { type Drain, startDrain } from '../claim/drain.ts'
import { claimArgs, claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { startGuardian } from './guardian.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis({ appendfsync: 'always' })])
  ground = await openGround(database.url, redis.url)
})
afterEach(async () => {
  await ground.sql`UPDATE campaigns SET state = 'ENDED', updated_at = now() - interval '1 day'`
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

/** A campaign whose lease has just ended. */
async function openWithoutLease(of: Ground, quota = 1_000): Promise<Bucket> {
  const bucket = await openCampaign(of, { quota })
  await renewLease(of.deps.runner, bucket, 0, true)
  return bucket
}

const leaseMs = async (of: Ground, bucket: Bucket) => {
  const gate = await snapshot(of.deps.runner, bucket)
  return gate === undefined ? 0 : Math.max(0, gate.leaseUntilMs - gate.nowMs)
}

const untilLeased = (of: Ground, bucket: Bucket) =>
  until(async () => (await leaseMs(of, bucket)) > 0, 'no lease came', 30_000)

/** The lease runs out and nobody renews it: up to 15 s when the guardian must look twice first. */
const untilWithheld = (of: Ground, bucket: Bucket, reason: string) =>
  until(
    async () => (await withheldOf(of))[reason] === 1 && (await leaseMs(of, bucket)) === 0,
    `not withheld for ${reason}`,
    60_000,
  )

async function withheldOf(of: Ground): Promise<Record<string, number>> {
  const metric = await of.deps.metrics.getSingleMetric('tidegate_leases_withheld')?.get()
  return Object.fromEntries(metric?.values.map(({ labels, value }) => [labels['reason'], value]) ?? [])
}

async function withGuardian(of: Ground, work: () => Promise<void>): Promise<void> {
  of.deps.metrics.clear()
  const guardian = startGuardian(of.deps)
  try {
    await work()
  } finally {
    await guardian.stop()
  }
}

let drains = 0
async function withDrain(of: Ground, work: (drain: Drain) => Promise<void>): Promise<void> {
  const drain = startDrain(of.deps, { consumer: `drain-${++drains}` })
  try {
    await work(drain)
  } finally {
    await drain.stop()
  }
}

async function decisionFor(of: Ground, bucket: Bucket, userId: string): Promise<string> {
  const { verdicts } = await claim(of.deps.runner, bucket, [claimArgs(userId)])
  return verdicts[0]!.decision
}

describe('the guardian', () => {
  it('leases a bucket for as long as it lives, and admission stops by itself when it is gone', async () => {
    const bucket = await openWithoutLease(ground)
    assert.equal(await decisionFor(ground, bucket, 'early'), 'BUSY')
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      assert.ok((await leaseMs(ground, bucket)) <= limits.leaseMs)
      assert.equal(await decisionFor(ground, bucket, 'ann'), 'ACCEPTED')
    })
    await until(async () => (await leaseMs(ground, bucket)) === 0, 'the lease outlived its guardian', 20_000)
    assert.equal(await decisionFor(ground, bucket, 'bob'), 'BUSY')
  })

  it('leases no campaign that is paused', async () => {
    const [paused, active] = await Promise.all([openWithoutLease(ground), openWithoutLease(ground)])
    await ground.sql`UPDATE campaigns SET state = 'PAUSED' WHERE campaign_id = ${paused.campaignId}`
    await withGuardian(ground, () => untilLeased(ground, active).then(() => undefined))
    assert.equal(await leaseMs(ground, paused), 0)
  })

  it('leases nothing while its clock and Redis’ are apart, and again once they agree', async () => {
    const bucket = await openWithoutLease(ground)
    let aheadMs = -3_600_000
    const stepped = { ...ground, deps: { ...ground.deps, clock: () => Date.now() + aheadMs } }
    await withGuardian(stepped, async () => {
      await untilWithheld(ground, bucket, 'clocks_apart')
      aheadMs = 0
      await untilLeased(ground, bucket)
      aheadMs = 3_600_000
      await untilWithheld(ground, bucket, 'clocks_apart')
    })
  })

  it('stops admission when the oldest claim waits too long, and goes on when it is delivered', async () => {
    const bucket = await openWithoutLease(ground)
    const [second] = await ground.redis.time()
    const longAgo = Number(second) * 1000 - limits.oldestUnsettledMaxMs - 5_000
    // An acceptance of long ago that nobody drained, with the gate's count of it.
    await renewLease(ground.deps.runner, bucket, 60_000, true)
    await claimFor(ground, bucket, ['old'])
    const [entry] = await ground.redis.xrange(logKey(bucket), '-', '+')
    await ground.redis.del(logKey(bucket))
    await ground.redis.xadd(logKey(bucket), `${longAgo}-1`, ...entry![1])
    await ground.redis.xgroup('CREATE', logKey(bucket), 'core', '0')
    await renewLease(ground.deps.runner, bucket, 0, true)
    await withGuardian(ground, async () => {
      await untilWithheld(ground, bucket, 'oldest_unsettled')
      await withDrain(ground, () => untilLeased(ground, bucket).then(() => undefined))
    })
  })

  it('goes on after a plain restart of Redis, by itself, also while claims wait in the log', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      await withDrain(ground, async () => {
        await claimFor(ground, bucket, people(100))
        await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
      })
      await untilLeased(ground, bucket)
      assert.equal((await claimFor(ground, bucket, people(50, 'waiting'))).length, 50)
      await redis.kill()
      await redis.restart()
      await until(() => ground.redis.ping().catch(() => false), 'Redis did not come back', 10_000)
      await renewLease(ground.deps.runner, bucket, 0, true)
      await untilLeased(ground, bucket)
    })
  })

  it('gives no lease to a Redis that forgot acceptances which the ledger has (IS10)', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      await claimFor(ground, bucket, people(10))
      const gate = await ground.redis.dumpBuffer(gateKey(bucket))
      const users = await ground.redis.dumpBuffer(usersKey(bucket))
      await untilLeased(ground, bucket)
      await claimFor(ground, bucket, people(10, 'forgotten'))
      await withDrain(ground, () =>
        until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000).then(
          () => undefined,
        ),
      )
      // What a failover to a replica that lagged looks like: another life, and a state of some moments ago.
      await redis.restart()
      await until(() => ground.redis.ping().catch(() => false), 'Redis did not come back', 10_000)
      await ground.redis.restore(gateKey(bucket), 0, gate!, 'REPLACE')
      await ground.redis.restore(usersKey(bucket), 0, users!, 'REPLACE')
      await renewLease(ground.deps.runner, bucket, 0, true)
      await untilWithheld(ground, bucket, 'redis_forgot')
    })
  })

  it('notices a Redis that forgot under the same name, and takes the lease back at once', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      const gate = await ground.redis.dumpBuffer(gateKey(bucket))
      await claimFor(ground, bucket, people(10))
      // A renewal after the claims has shown them to the guardian.
      const seen = (await snapshot(ground.deps.runner, bucket))!.leaseUntilMs
      const renewed = async () => (await snapshot(ground.deps.runner, bucket))!.leaseUntilMs > seen
      await until(renewed, 'not renewed', 10_000)
      await ground.redis.restore(gateKey(bucket), 0, gate!, 'REPLACE')
      await untilWithheld(ground, bucket, 'redis_forgot')
    })
  })

  it('notices that the log lost acceptances, and stops admission', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      await claimFor(ground, bucket, people(10))
      await ground.redis.xtrim(logKey(bucket), 'MAXLEN', 0)
      await untilWithheld(ground, bucket, 'identity_broken')
    })
  })

  it('gives no lease to a Redis that forgot a configuration which it had confirmed, as a resumption', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, () => untilLeased(ground, bucket).then(() => undefined))
    await ground.sql`UPDATE campaigns SET config_version = 2 WHERE campaign_id = ${bucket.campaignId}`
    await ground.sql`UPDATE buckets SET config_version = 2 WHERE campaign_id = ${bucket.campaignId}`
    await withGuardian(ground, async () => {
      await untilWithheld(ground, bucket, 'redis_forgot')
    })
  })

  it('gives no lease to a bucket whose gate is gone (case-H10)', async () => {
    const bucket = await openWithoutLease(ground)
    await withGuardian(ground, async () => {
      await untilLeased(ground, bucket)
      await ground.redis.flushall()
      await untilWithheld(ground, bucket, 'gate_missing')
    })
    assert.equal(await snapshot(ground.deps.runner, bucket), undefined)
  })

  it('gives no lease on a Redis that evicts (case-H19)', async () => {
    const bucket = await openWithoutLease(ground)
    await ground.redis.config('SET', 'maxmemory-policy', 'allkeys-lru')
    try {
      await withGuardian(ground, async () => {
        await until(async () => (await withheldOf(ground))['redis_evicts'] === 1, 'not withheld', 10_000)
        assert.equal(await leaseMs(ground, bucket), 0)
        await ground.redis.config('SET', 'maxmemory-policy', 'noeviction')
        await untilLeased(ground, bucket)
      })
    } finally {
      await ground.redis.config('SET', 'maxmemory-policy', 'noeviction')
    }
  })

  it('says SOLD_OUT for an empty bucket only when no other of its campaign has stock', async () => {
    const bucket = await openWithoutLease(ground, 1)
    const other = { ...bucket, bucket: 1 }
    await ground.sql`UPDATE campaigns SET bucket_count = 2 WHERE campaign_id = ${bucket.campaignId}`
    await ground.sql`
      INSERT INTO buckets (campaign_id, bucket, allocated) VALUES (${bucket.campaignId}, 1, 1)`
    await withGuardian(ground, async () => {
      // The second gate is primed by the guardian's own round.
      await Promise.all([untilLeased(ground, bucket), untilLeased(ground, other)])
      assert.equal(await decisionFor(ground, bucket, 'ann'), 'ACCEPTED')
      await until(
        async () => (await decisionFor(ground, bucket, 'bob')) === 'BUSY',
        'an empty bucket is not busy while the other has stock',
        10_000,
      )
      assert.equal(await decisionFor(ground, other, 'cid'), 'ACCEPTED')
      await until(
        async () => (await decisionFor(ground, bucket, 'bob')) === 'SOLD_OUT',
        'not sold out when both are empty',
        10_000,
      )
    })
  })
})

describe('the guardian, without Postgres', () => {
  it('lets leases run out while it is away, and gives them again when it is back', async () => {
    const dir = `${temporaryFolder('guardian')}/postgres`
    const settings = { fsync: 'off', shared_buffers: '32MB' }
    let server: Postgres = await startPostgres({ dir, settings, background: true })
    const { port } = server
    const own = await openGround(server.url, redis.url)
    try {
      const bucket = await openWithoutLease(own)
      await withGuardian(own, async () => {
        await untilLeased(own, bucket)
        await server.stop()
        await untilWithheld(own, bucket, 'postgres_away')
        server = await startPostgres({ dir, port, settings, background: true })
        await untilLeased(own, bucket)
      })
    } finally {
      await own.close()
      await server.stop()
    }
  })
})
