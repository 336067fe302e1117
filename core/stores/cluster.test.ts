import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { type Bucket, gateKey, logKey } from '../../lua/keys.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { until } from '../../stack/process.ts'
import { type FreshCluster, freshCluster } from '../../stack/redis-cluster.ts'
import { type FreshDatabase, type FreshRedis, freshDatabase } from '../../stack/testing.ts'
import { lanesMax } from '../claim/clusterReader.ts'
import { startDrains } from '../claim/drains.ts'
import { type Accepted, claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { type Guardian, startGuardian } from '../guardian/guardian.ts'
import { makeRecovery } from '../recovery/recover.ts'
import { startStockKeeper } from '../stock/keeper.ts'
import { slotOf } from './slot.ts'

/** The core on a real cluster of three masters with a replica each, and a campaign of eight buckets. */

const bucketCount = 8
let database: FreshDatabase
let cluster: FreshCluster
let ground: Ground
let guardian: Guardian
let campaign: Bucket
before(async () => {
  ;[database, cluster] = await Promise.all([freshDatabase(), freshCluster(3, 3)])
  ground = await openGround(database.url, cluster.masters.map(({ url }) => url).join(','))
  await until(() => isServed('any'), 'the cluster is not known', 20_000)
  campaign = await openCampaign(ground, { quota: 800, buckets: bucketCount })
  for (const bucket of allBuckets()) await renewLease(ground.deps.runner, bucket, 0, false)
  guardian = ground.runs(startGuardian(ground.deps, { recover: makeRecovery(ground.deps) }))
  ground.runs(startDrains(ground.deps, { consumer: 'clustered' }))
})
after(async () => {
  await ground?.close()
  await cluster?.stop()
  await database?.drop()
})

const allBuckets = (): Bucket[] =>
  Array.from({ length: bucketCount }, (_, bucket) => ({ ...campaign, bucket }))
const addressOf = (bucket: Bucket) => ground.deps.stores.main.nodeOf(gateKey(bucket)).address

async function isServed(key: string): Promise<boolean> {
  try {
    return ground.deps.stores.main.nodeOf(key) !== undefined
  } catch {
    return false
  }
}

/** The gate in one look, if it has a lease. */
async function leasedGate(bucket: Bucket) {
  const gate = await snapshot(ground.deps.runner, bucket).catch(() => undefined)
  return gate !== undefined && gate.leaseUntilMs > gate.nowMs ? gate : undefined
}

async function untilDelivered(accepted: readonly Accepted[], deadlineMs: number): Promise<void> {
  const ids = accepted.map(({ requestId }) => requestId)
  await until(
    async () => {
      const [row] = await ground.sql`
        SELECT count(*)::int AS n FROM claims WHERE request_id = ANY(${ids}::uuid[]) AND status = 'DELIVERED'`
      return row!['n'] === ids.length
    },
    'not all were delivered',
    deadlineMs,
  )
}

describe('the core on a Redis Cluster', () => {
  it('knows the slots as the servers do', async () => {
    for (const key of [
      logKey(campaign),
      gateKey({ ...campaign, bucket: 7 }),
      'plain',
      'a{}b',
      '{x}{y}',
      'ключ',
    ])
      assert.equal(slotOf(key), await ground.redis.cluster('KEYSLOT', key), key)
  })

  it('leases and drains buckets on every master, each claim once', async () => {
    assert.equal(new Set(allBuckets().map(addressOf)).size, 3, 'the buckets are on all three masters')
    const accepted: Accepted[] = []
    for (const bucket of allBuckets()) {
      await until(() => leasedGate(bucket), 'no lease came', 30_000)
      accepted.push(...(await claimFor(ground, bucket, people(20, `first-${bucket.bucket}`))))
    }
    assert.equal(accepted.length, bucketCount * 20)
    await untilDelivered(accepted, 20_000)
    for (const bucket of allBuckets()) {
      const settled = async () => (await snapshot(ground.deps.runner, bucket))!.entries === 0
      await until(settled, 'the log was not emptied', 10_000)
    }
    const again = await ground.deps.metrics.getSingleMetric('tidegate_log_entries_recovered_total')!.get()
    assert.deepEqual(
      again.values.map(({ value }) => value),
      [0],
      'entries were read and not heard of',
    )
  })

  it('drains more logs than it has lanes for', async () => {
    const many = await openCampaign(ground, { quota: 480, buckets: 48 })
    assert.ok(48 > lanesMax)
    const accepted: Accepted[] = []
    for (let bucket = 0; bucket < 48; bucket++)
      accepted.push(...(await claimFor(ground, { ...many, bucket }, people(2, `many-${bucket}`))))
    assert.equal(accepted.length, 96)
    await untilDelivered(accepted, 20_000)
    await ground.sql`UPDATE campaigns SET state = 'ENDED' WHERE campaign_id = ${many.campaignId}`
  })

  it('moves stock to an empty bucket from one on another master', async () => {
    const moving = await openCampaign(ground, { quota: 40, buckets: bucketCount })
    const at = (bucket: number) => ({ ...moving, bucket })
    const empty = allBuckets().find(({ bucket }) => addressOf(at(bucket)) !== addressOf(at(0)))!
    // Only the first has anything left, and it is on another master than the one that is looked at.
    for (let bucket = 1; bucket < bucketCount; bucket++)
      assert.equal((await claimFor(ground, at(bucket), people(5, `moving-${bucket}`))).length, 5)
    const keeper = startStockKeeper(ground.deps)
    try {
      const stocked = async () => (await snapshot(ground.deps.runner, at(empty.bucket)))!.remaining > 0
      await until(stocked, 'no stock came', 30_000)
    } finally {
      await keeper.stop()
    }
    const gates = await Promise.all(
      Array.from({ length: bucketCount }, (_, bucket) => snapshot(ground.deps.runner, at(bucket))),
    )
    assert.equal(
      gates.reduce((sum, gate) => sum + gate!.remaining, 0),
      5,
      'none was made or lost',
    )
    await ground.sql`UPDATE campaigns SET state = 'ENDED' WHERE campaign_id = ${moving.campaignId}`
  })

  it('serves the other masters’ buckets while one is away, and its own when its replica was found to be whole', async () => {
    const lost = addressOf(campaign)
    const [its, others] = [true, false].map((mine) =>
      allBuckets().filter((one) => (addressOf(one) === lost) === mine),
    )
    const before = await Promise.all(
      its!.map(async (bucket) => (await snapshot(ground.deps.runner, bucket))!.accepted),
    )
    const dead = cluster.masters.find(({ port }) => lost.endsWith(`:${port}`))!
    // Watched from the start: it lasts only until the replica has taken over.
    const noticed = until(
      () => guardian.view().some(({ bucket, withheld }) => bucket.bucket === 0 && withheld === 'redis_away'),
      'the guardian did not notice',
      20_000,
    )
    noticed.catch(() => undefined)
    await dead.kill()

    const meanwhile = await claimFor(ground, others![0]!, people(20, 'meanwhile'))
    assert.equal(meanwhile.length, 20)
    await untilDelivered(meanwhile, 20_000)
    await noticed

    const accepted: Accepted[] = []
    for (const [i, bucket] of its!.entries()) {
      const gate = await until(() => leasedGate(bucket), 'its replica got no lease', 30_000)
      assert.notEqual(addressOf(bucket), lost)
      assert.ok(gate.accepted >= before[i]!, 'what was acknowledged is there again')
      accepted.push(...(await claimFor(ground, bucket, people(20, `after-${bucket.bucket}`))))
    }
    assert.equal(accepted.length, its!.length * 20)
    await untilDelivered(accepted, 20_000)
    const [row] = await ground.sql`
      SELECT s.issued::int, (SELECT count(*) FROM coupons k WHERE k.campaign_id = s.campaign_id)::int AS coupons,
        (SELECT count(DISTINCT request_id) FROM coupons k WHERE k.campaign_id = s.campaign_id)::int AS requests
      FROM campaign_stock s WHERE campaign_id = ${campaign.campaignId}`
    const count = bucketCount * 20 + 20 + accepted.length
    assert.deepEqual({ ...row }, { issued: count, coupons: count, requests: count })
  })

  it('rebuilds a bucket whose replica had fallen behind when it was promoted: no claim twice, none beyond the limit', async () => {
    const bucket = allBuckets().find((one) => addressOf(one) !== addressOf(campaign))!
    const [dead, replica] = await pairOf(addressOf(bucket))
    await until(() => leasedGate(bucket), 'no lease', 30_000)
    process.kill(replica.pid(), 'SIGSTOP')
    // Otherwise what it misses would wait for it in its socket.
    await withClient(dead, (client) => client.client('KILL', 'TYPE', 'REPLICA'))
    const unseen = await claimFor(ground, bucket, people(20, 'unseen'))
    assert.equal(unseen.length, 20)
    await untilDelivered(unseen, 20_000)
    await dead.kill()
    process.kill(replica.pid(), 'SIGCONT')
    await until(() => isServedBy(bucket, replica.port), 'the replica was not promoted', 30_000)
    await until(
      async () => ((await leasedGate(bucket))?.epoch ?? 0) >= 2 ** 32,
      'the bucket was not rebuilt',
      30_000,
    )
    assert.deepEqual(await claimFor(ground, bucket, people(20, 'unseen')), [])
    const more = await claimFor(ground, bucket, people(5, 'rebuilt'))
    assert.equal(more.length, 5)
    await untilDelivered(more, 20_000)
  })
})

const isServedBy = async (bucket: Bucket, port: number) => {
  try {
    return addressOf(bucket).endsWith(`:${port}`)
  } catch {
    return false
  }
}

async function withClient<T>(server: FreshRedis, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(server.url, { lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } finally {
    client.disconnect()
  }
}

/** The master at this address and the replica that follows it. */
async function pairOf(address: string): Promise<[FreshRedis, FreshRedis]> {
  const servers = [...cluster.masters, ...cluster.replicas]
  const master = servers.find(({ port }) => address.endsWith(`:${port}`))!
  for (const server of servers) {
    // One of them was killed before.
    const info = await withClient(server, (client) => client.info('replication')).catch(() => '')
    if (info.includes('role:slave') && info.includes(`master_port:${master.port}\r`)) return [master, server]
  }
  throw new Error(`nobody follows ${address}`)
}
