import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
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
import { type DrainOptions, startDrain } from './drain.ts'
import { openBreakableWay } from './testing.proxy.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from './testing.ts'

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
/** Runs drains only for this work. */
async function withDrains(of: Ground, options: DrainOptions[], work: () => Promise<void>): Promise<void> {
  const running = options.map((one) => startDrain(of.deps, { consumer: `drain-${++drains}`, ...one }))
  try {
    await work()
  } finally {
    await Promise.all(running.map((drain) => drain.stop()))
  }
}

async function untilDrained(of: Ground, bucket: Bucket, deadlineMs = 20_000): Promise<void> {
  const empty = async () => (await of.redis.xlen(logKey(bucket))) === 0
  await until(empty, 'the log was not drained', deadlineMs)
}

/** Each accepted claim one coupon, the stock counted once, the log empty, and Redis and the ledger agree. */
async function assertIssuedOnce(of: Ground, bucket: Bucket, count: number): Promise<void> {
  const [row] = await of.sql`
    SELECT (SELECT count(*) FROM coupons k WHERE k.campaign_id = s.campaign_id)::int AS coupons,
      (SELECT count(*) FROM claims c WHERE c.campaign_id = s.campaign_id AND status = 'DELIVERED')::int AS claims,
      (SELECT count(*) FROM ledger l WHERE l.campaign_id = s.campaign_id)::int AS ledger,
      s.issued::int
    FROM campaign_stock s WHERE s.campaign_id = ${bucket.campaignId}`
  assert.deepEqual({ ...row }, { coupons: count, claims: count, ledger: count, issued: count })
  const gate = await snapshot(of.deps.runner, bucket)
  assert.deepEqual([gate?.accepted, gate?.settled, gate?.entries], [count, count, 0])
}

describe('the drain', () => {
  it('makes each accepted claim one coupon, with its ledger row and its event, and empties the log', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await withDrains(ground, [{}], async () => {
      assert.equal((await claimFor(ground, bucket, people(150))).length, 150)
      await untilDrained(ground, bucket)
    })
    await assertIssuedOnce(ground, bucket, 150)
    const [row] = await ground.sql`
      SELECT count(*)::int AS n FROM coupons k JOIN claims c USING (user_id, request_id)
      JOIN ledger l USING (user_id, request_id) JOIN outbox o USING (user_id, request_id)
      WHERE k.campaign_id = ${bucket.campaignId} AND c.coupon_id = k.coupon_id AND l.coupon_id = k.coupon_id
        AND o.payload->>'coupon_id' = k.coupon_id::text AND o.published_at IS NULL`
    assert.equal(row!['n'], 150)
  })

  it('two drains on one log issue each claim once between them', async () => {
    const bucket = await openCampaign(ground, { quota: 5_000 })
    await withDrains(ground, [{}, {}], async () => {
      await Promise.all(
        Array.from({ length: 4 }, (_, i) => claimFor(ground, bucket, people(1_000, `side-${i}`))),
      )
      await untilDrained(ground, bucket)
    })
    await assertIssuedOnce(ground, bucket, 4_000)
  })

  it('takes over what a dead consumer had read (case-H13)', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(130))
    await ground.redis.xreadgroup('GROUP', drainGroup, 'dead', 'COUNT', 10, 'STREAMS', logKey(bucket), '>')
    await withDrains(ground, [{ idleMs: 200 }], () => untilDrained(ground, bucket))
    await assertIssuedOnce(ground, bucket, 130)
  })

  it('takes up its own pending entries at once after a restart under its name (IS1)', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(130))
    await ground.redis.xreadgroup('GROUP', drainGroup, 'me', 'COUNT', 10, 'STREAMS', logKey(bucket), '>')
    // Long before they would be taken over as stale.
    await withDrains(ground, [{ consumer: 'me' }], () => untilDrained(ground, bucket, 10_000))
    await assertIssuedOnce(ground, bucket, 130)
  })

  it('goes on when the log’s group is gone, from the first entry that is there (case-H10)', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(20))
    await ground.redis.xgroup('DESTROY', logKey(bucket), drainGroup)
    await withDrains(ground, [{}], async () => {
      await untilDrained(ground, bucket)
      await ground.redis.del(logKey(bucket))
      await claimFor(ground, bucket, people(20, 'after'))
      await untilDrained(ground, bucket)
    })
    await assertIssuedOnce(ground, bucket, 40)
  })

  it('gives up an entry that ends whoever handles it, and the rest of the log flows (case-H15)', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(192))
    const reply = (await ground.redis.xreadgroup(
      ...(['GROUP', drainGroup, 'dead', 'COUNT', 3, 'STREAMS', logKey(bucket), '>'] as const),
    )) as [string, [string, string[]][]][]
    const ids = reply[0]![1].map(([id]) => id)
    const deadly = 2 * limits.deliveriesMax
    await ground.redis.xclaim(logKey(bucket), drainGroup, 'dead', 0, ids[1]!, 'RETRYCOUNT', deadly, 'JUSTID')
    await withDrains(ground, [{ idleMs: 200 }], () => untilDrained(ground, bucket))
    const [row] =
      await ground.sql`SELECT count(*)::int AS n FROM coupons WHERE campaign_id = ${bucket.campaignId}`
    assert.equal(row!['n'], 128)
    const letters = await ground.sql`
      SELECT entry_id, position, cardinality(fields) AS fields, cause FROM dead_letters
      WHERE campaign_id = ${bucket.campaignId}`
    assert.deepEqual(
      letters.map((letter) => [letter['entry_id'], letter['position'], letter['fields']]),
      [[ids[1], -1, 2 + 2 * 64]],
    )
    assert.match(letters[0]!['cause'], /^delivered 11 times/)
  })

  it('reports entries that were delivered and are gone as lost', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(64))
    const reply = (await ground.redis.xreadgroup(
      ...(['GROUP', drainGroup, 'dead', 'STREAMS', logKey(bucket), '>'] as const),
    )) as [string, [string, string[]][]][]
    await ground.redis.xdel(logKey(bucket), reply[0]![1][0]![0])
    const lost = async () =>
      (await ground.deps.metrics.getSingleMetric('tidegate_log_entries_lost_total')?.get())?.values[0]
        ?.value ?? 0
    const before = await lost()
    await withDrains(ground, [{ idleMs: 200 }], async () => {
      await until(async () => (await lost()) === before + 1, 'the loss was not noticed', 10_000)
    })
  })

  it('drains a campaign that is over until its log is empty, and one that ended unseen', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    await claimFor(ground, bucket, people(20))
    await ground.sql`
      UPDATE campaigns SET state = 'ENDED', updated_at = now() - interval '1 day'
      WHERE campaign_id = ${bucket.campaignId}`
    await withDrains(ground, [{}], () => untilDrained(ground, bucket))
    await assertIssuedOnce(ground, bucket, 20)
  })

  it('leaves its group when it stops and nothing of it is pending (case-H12)', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    const consumers = async () =>
      ((await ground.redis.call('XINFO', 'CONSUMERS', logKey(bucket), drainGroup)) as unknown[]).length
    await withDrains(ground, [{ consumer: 'leaver' }], async () => {
      await claimFor(ground, bucket, people(5))
      await untilDrained(ground, bucket)
      assert.equal(await consumers(), 1)
    })
    // A stop that takes long goes on without being waited for.
    await until(async () => (await consumers()) === 0, 'it is still in the group', 10_000)
  })
})

describe('the drain, when Postgres fails', () => {
  it('finds what was committed when the answer to COMMIT is lost, and neither repeats nor returns it (IS5, A4 §15.1-5, case-B6)', async () => {
    const way = await openBreakableWay(database.url)
    const behind = await openGround(database.url, redis.url, { databaseUrl: way.url })
    try {
      const bucket = await openCampaign(behind, { quota: 100 })
      await claimFor(behind, bucket, people(64))
      const lost = way.loseCommitAnswer()
      await withDrains(behind, [{}], async () => {
        await lost
        await untilDrained(behind, bucket)
      })
      await assertIssuedOnce(behind, bucket, 64)
      const [debts] = await behind.sql`
        SELECT count(*)::int AS n FROM compensations WHERE campaign_id = ${bucket.campaignId}`
      assert.equal(debts!['n'], 0)
    } finally {
      await behind.close()
      await way.close()
    }
  })

  it('goes on with the same claims when Postgres stops and comes back', async () => {
    const dir = `${temporaryFolder('away')}/postgres`
    const settings = { fsync: 'off', shared_buffers: '32MB' }
    let server: Postgres = await startPostgres({ dir, settings, background: true })
    const { port } = server
    const away = await openGround(server.url, redis.url)
    try {
      const bucket = await openCampaign(away, { quota: 1_000 })
      await withDrains(away, [{}], async () => {
        await claimFor(away, bucket, people(100))
        await untilDrained(away, bucket)
        await server.stop()
        assert.equal((await claimFor(away, bucket, people(300, 'meanwhile'))).length, 300)
        await until(
          async () => ((await away.redis.xpending(logKey(bucket), drainGroup)) as [number])[0] > 0,
          'nothing was tried while it was away',
          10_000,
        )
        server = await startPostgres({ dir, port, settings, background: true })
        assert.equal(server.port, port)
        // The driver itself waits for up to 20 s before it tries a connection again.
        await untilDrained(away, bucket, 60_000)
      })
      await assertIssuedOnce(away, bucket, 400)
    } finally {
      await away.close()
      await server.stop()
    }
  })
})

/** A core that commits and then dies before it settles: its calls of `settle` never leave. */
const dyingCore = `
  const [databaseUrl, redisUrl] = process.argv.slice(1)
  const at = (path) => ${JSON.stringify(fileURLToPath(new URL('./', import.meta.url)))} + path
  const { openGround } = await import(at('testing.ts'))
  const { startDrain } = await import(at('drain.ts'))
  const { deps } = await openGround(databaseUrl, redisUrl)
  const runner = {
    run(script, keys, args) {
      if (script.name !== 'settle') return deps.runner.run(script, keys, args)
      console.log('committed')
      return new Promise(() => undefined)
    },
  }
  startDrain({ ...deps, runner }, { consumer: 'dying' })
`

describe('the drain, when its process dies', () => {
  it('killed between commit and acknowledgement: every claim is delivered once (IS1, case-A10)', async () => {
    const bucket = await openCampaign(ground, { quota: 500 })
    await claimFor(ground, bucket, people(300))
    const flags = ['--input-type=module', '-e', dyingCore]
    const child = spawn(process.execPath, [...flags, database.url, redis.url], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const gone = new Promise((resolve) => child.once('exit', resolve))
    await new Promise<void>((resolve, reject) => {
      child.stdout.once('data', () => resolve())
      child.once('exit', () => reject(new Error('the core ended before it committed')))
    })
    child.kill('SIGKILL')
    await gone
    const [row] =
      await ground.sql`SELECT count(*)::int AS n FROM coupons WHERE campaign_id = ${bucket.campaignId}`
    assert.ok(row!['n'] > 0, 'nothing was committed')
    assert.equal((await snapshot(ground.deps.runner, bucket))?.settled, 0)
    await withDrains(ground, [{ idleMs: 300 }], () => untilDrained(ground, bucket))
    await assertIssuedOnce(ground, bucket, 300)
  })
})
