import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Bucket, gateKey, usersKey } from '../../lua/keys.ts'
import { ArbiterError, type ScriptRunner } from '../../lua/runner.ts'
import { settle, snapshot } from '../../lua/stock.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { compensateOnce, startCompensator } from './compensate.ts'
import { startDrain } from './drain.ts'
import { claimMetrics } from './metrics.ts'
import { type Accepted, claimFor, type Ground, openCampaign, openGround, people } from './testing.ts'

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

/** A campaign of quota 5 whose gate gave 8: three claims are rejected and owed. */
async function withDebts(): Promise<{ bucket: Bucket; rejected: Accepted[] }> {
  const bucket = await openCampaign(ground, { quota: 5, gateStock: 8 })
  const accepted = await claimFor(ground, bucket, people(8))
  const drain = startDrain(ground.deps, { consumer: `debts-${bucket.campaignId}` })
  try {
    await until(async () => (await debtsOf(bucket)).length === 3, 'nothing was rejected', 10_000)
    await until(
      async () => (await snapshot(ground.deps.runner, bucket))?.entries === 0,
      'not settled',
      10_000,
    )
  } finally {
    await drain.stop()
  }
  return { bucket, rejected: accepted.slice(5) }
}

const debtsOf = async (bucket: Bucket) => [
  ...(await ground.sql<{ state: string; attempts: number; reason: string }[]>`
    SELECT state, attempts, reason FROM compensations WHERE campaign_id = ${bucket.campaignId}`),
]

const statesOf = async (bucket: Bucket) => (await debtsOf(bucket)).map(({ state }) => state)

async function round(
  runner: ScriptRunner = ground.deps.runner,
  laterMs = 0,
  nowMs = ground.deps.clock(),
): Promise<void> {
  const clock = () => nowMs + laterMs
  await compensateOnce({ ...ground.deps, runner, clock }, claimMetrics(ground.deps.metrics))
}

async function stockOf(bucket: Bucket) {
  const gate = await snapshot(ground.deps.runner, bucket)
  return [gate?.remaining, gate?.returned]
}

describe('compensation', () => {
  it('returns the stock of each rejected claim once, closes the debt and tells the ledger', async () => {
    const { bucket } = await withDebts()
    assert.deepEqual(await stockOf(bucket), [0, 0])
    const compensator = startCompensator(ground.deps)
    try {
      await until(
        async () => (await statesOf(bucket)).every((state) => state === 'CLOSED'),
        'not closed',
        10_000,
      )
    } finally {
      await compensator.stop()
    }
    assert.deepEqual(await stockOf(bucket), [3, 3])
    const rows = await ground.sql`
      SELECT reason FROM ledger WHERE campaign_id = ${bucket.campaignId} AND kind = 'compensation.closed'`
    assert.deepEqual(
      rows.map((row) => row['reason']),
      ['REJECTED_QUOTA', 'REJECTED_QUOTA', 'REJECTED_QUOTA'],
    )
  })

  it('repeated, or done by many at once, still returns each stock once (IS6, A4 §15.1-6)', async () => {
    const { bucket } = await withDebts()
    await Promise.all([round(), round(), round(), round()])
    // As after a crash between Redis' answer and its record: the debt is there again.
    await ground.sql`UPDATE compensations SET state = 'PENDING' WHERE campaign_id = ${bucket.campaignId}`
    await Promise.all([round(undefined, 60_000), round(undefined, 60_000)])
    assert.deepEqual(await stockOf(bucket), [3, 3])
    assert.deepEqual(await statesOf(bucket), ['CLOSED', 'CLOSED', 'CLOSED'])
  })

  it('without an answer the debt is UNKNOWN, and is asked again, later each time', async () => {
    const { bucket } = await withDebts()
    const mute: ScriptRunner = {
      // The worst of silences: Redis did it, and nobody heard.
      async run(script, keys, args) {
        await ground.deps.runner.run(script, keys, args)
        throw new ArbiterError('unknown', 'no answer')
      },
    }
    const nowMs = ground.deps.clock()
    await round(mute, 0, nowMs)
    assert.deepEqual(
      await debtsOf(bucket),
      Array(3).fill({ state: 'UNKNOWN', attempts: 1, reason: 'REJECTED_QUOTA' }),
    )
    await round(undefined, 900, nowMs)
    assert.deepEqual(await statesOf(bucket), ['UNKNOWN', 'UNKNOWN', 'UNKNOWN'], 'it was asked too soon')
    await round(undefined, 2_000, nowMs)
    assert.deepEqual(await statesOf(bucket), ['CLOSED', 'CLOSED', 'CLOSED'])
    assert.deepEqual(await stockOf(bucket), [3, 3])
  })

  it('a gate that is gone leaves the debt open until its rebuild', async () => {
    const { bucket } = await withDebts()
    await ground.redis.rename(gateKey(bucket), `${gateKey(bucket)}:aside`)
    await round()
    assert.deepEqual(await statesOf(bucket), ['UNKNOWN', 'UNKNOWN', 'UNKNOWN'])
    await ground.redis.rename(`${gateKey(bucket)}:aside`, gateKey(bucket))
    await round(undefined, 2_000)
    assert.deepEqual(await stockOf(bucket), [3, 3])
  })

  it('a record that Redis lost owes nothing: the debt closes and says so', async () => {
    const { bucket, rejected } = await withDebts()
    await ground.redis.hdel(usersKey(bucket), ...rejected.map(({ userId }) => userId))
    await round()
    assert.deepEqual(await statesOf(bucket), ['CLOSED', 'CLOSED', 'CLOSED'])
    assert.deepEqual(await stockOf(bucket), [0, 0])
    const rows = await ground.sql`
      SELECT DISTINCT reason FROM ledger WHERE campaign_id = ${bucket.campaignId} AND kind = 'compensation.closed'`
    assert.deepEqual([...rows], [{ reason: 'REJECTED_QUOTA, redis_record_missing' }])
  })

  it('a record that says delivered returns nothing and goes to a person', async () => {
    const { bucket, rejected } = await withDebts()
    const users = usersKey(bucket)
    for (const { userId } of rejected) {
      const record = (await ground.redis.hget(users, userId))!
      await ground.redis.hset(users, userId, `${record.slice(0, -1)}A`)
    }
    const delivered = rejected.map((one) => ({ ...one, state: 'D' as const }))
    await settle(ground.deps.runner, bucket, [], delivered)
    await round()
    assert.deepEqual(await statesOf(bucket), ['REVIEW', 'REVIEW', 'REVIEW'])
    assert.deepEqual(await stockOf(bucket), [0, 0])
    await round(undefined, 60_000)
    assert.deepEqual(await statesOf(bucket), ['REVIEW', 'REVIEW', 'REVIEW'])
  })
})
