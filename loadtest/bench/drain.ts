import { join } from 'node:path'
import { crewMax } from '../../core/claim/crew.ts'
import { type Drain, startDrain } from '../../core/claim/drain.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from '../../core/claim/testing.ts'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import { startPostgres } from '../../stack/postgres.ts'
import { until } from '../../stack/process.ts'
import { discard, freshRedis, temporaryFolder } from '../../stack/testing.ts'
import { prepareRaw, runRaw } from './drain/raw.ts'
import { median, type Suite } from './suite.ts'

/**
 * What the drain adds to the rows that it has to write, on a Postgres that syncs each commit. Two cases a turn: a log
 * that is full when the drain starts (against the bare inserts), and a burst accepted while it runs.
 */

const claims = 50_000
/** As the drain reads it: 64 entries of 64 claims. */
const rowsPerBatch = 4_096
const rawAtOnce = crewMax
const withinMs = 120_000

interface Burst {
  p50: number
  p99: number
  accepted_per_s: number
  delivered_per_s: number
}

async function newCampaign(ground: Ground, quota = claims): Promise<Bucket> {
  return openCampaign(ground, { quota })
}

async function drained(ground: Ground, bucket: Bucket): Promise<void> {
  const empty = async () => (await ground.redis.xlen(logKey(bucket))) === 0
  await until(empty, 'the log was not drained', withinMs, 5)
}

async function assertAllIssued(ground: Ground, bucket: Bucket, accepted = claims): Promise<void> {
  const gate = await snapshot(ground.deps.runner, bucket)
  const [stock] = await ground.sql`
    SELECT issued::int, (SELECT count(*) FROM coupons k WHERE k.campaign_id = s.campaign_id)::int AS coupons
    FROM campaign_stock s WHERE campaign_id = ${bucket.campaignId}`
  const { issued, coupons } = stock as unknown as { issued: number; coupons: number }
  if (issued !== accepted || coupons !== accepted || gate?.settled !== accepted)
    throw new Error(
      `issued ${issued}, coupons ${coupons}, settled ${gate?.settled}: ${accepted} were accepted`,
    )
}

/** From a full log to the last acknowledgement. @returns coupons a second. */
async function measureDrain(ground: Ground, count = claims): Promise<number> {
  const bucket = await newCampaign(ground, count)
  await claimFor(ground, bucket, people(count))
  const started = performance.now()
  const drain = startDrain(ground.deps, { consumer: bucket.campaignId })
  await drained(ground, bucket)
  const ms = performance.now() - started
  await drain.stop()
  await assertAllIssued(ground, bucket, count)
  return (count / ms) * 1000
}

async function measureRaw(ground: Ground): Promise<number> {
  const { campaignId } = await newCampaign(ground)
  const batches = prepareRaw(claims, rowsPerBatch)
  return (claims / (await runRaw(ground.deps.db.issuance.sql, campaignId, batches, rawAtOnce))) * 1000
}

/** Accepted as fast as the arbiter can, while the drain runs. Deliveries are counted at their commits. */
async function measureBurst(ground: Ground): Promise<Burst> {
  const bucket = await newCampaign(ground)
  const accepted: number[] = []
  const delivered: number[] = []
  const drain: Drain = startDrain(ground.deps, {
    consumer: bucket.campaignId,
    onCommitted({ issued }) {
      const now = performance.now()
      for (let i = 0; i < issued; i++) delivered.push(now)
    },
  })
  const users = people(claims)
  const callers = 4
  const started = performance.now()
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let at = caller * 64; at < claims; at += callers * 64) {
        const some = await claimFor(ground, bucket, users.slice(at, at + 64))
        const now = performance.now()
        for (let i = 0; i < some.length; i++) accepted.push(now)
      }
    }),
  )
  await drained(ground, bucket)
  await drain.stop()
  await assertAllIssued(ground, bucket)
  // The nth accepted is taken to be the nth delivered: the log keeps its order.
  const waits = delivered.map((at, i) => Math.max(0, at - accepted[i]!)).sort((a, b) => a - b)
  const rate = (times: readonly number[]) => claims / ((times.at(-1)! - started) / 1000)
  const at = (share: number) => waits[Math.min(waits.length - 1, Math.floor(waits.length * share))]!
  return { p50: at(0.5), p99: at(0.99), accepted_per_s: rate(accepted), delivered_per_s: rate(delivered) }
}

/** Servers of our own, the database syncing each commit as in production. */
async function withGround<T>(work: (ground: Ground) => Promise<T>): Promise<T> {
  const [server, redis] = await Promise.all([
    startPostgres({ dir: join(temporaryFolder('bench-drain'), 'postgres'), background: true }),
    freshRedis(),
  ])
  const ground = await openGround(server.url, redis.url)
  try {
    return await work(ground)
  } finally {
    await ground.close()
    await discard(redis)
    await server.stop()
  }
}

/** Coupons a second of one process, from a full log to the last acknowledgement; the better of two turns. */
export function drainSpeed(count: number): Promise<number> {
  return withGround(async (ground) =>
    Math.max(await measureDrain(ground, count), await measureDrain(ground, count)),
  )
}

const middle = (values: readonly number[]) => Math.round(median(values))

export const drainSuite: Suite = {
  name: 'drain',
  about: 'from the log to acknowledged coupons, beside the same rows by bare inserts',
  run: ({ say, turns }) =>
    withGround(async (ground) => {
      const raw: number[] = []
      const drain: number[] = []
      const bursts: Burst[] = []
      for (let turn = 0; turn < turns; turn++) {
        raw.push(await measureRaw(ground))
        drain.push(await measureDrain(ground))
        bursts.push(await measureBurst(ground))
        const burst = bursts.at(-1)!
        say(
          `  ${turn + 1}/${turns} raw ${Math.round(raw.at(-1)!)} /s, drain ${Math.round(drain.at(-1)!)} /s, ` +
            `burst p50 ${Math.round(burst.p50)} ms p99 ${Math.round(burst.p99)} ms`,
        )
      }
      const ratios = drain.map((value, i) => value / raw[i]!)
      const ratio = Math.round(median(ratios) * 1000) / 1000
      const result = {
        claims,
        raw_per_s: middle(raw),
        drain_per_s: middle(drain),
        ratio,
        burst_accepted_per_s: middle(bursts.map((burst) => burst.accepted_per_s)),
        burst_delivered_per_s: middle(bursts.map((burst) => burst.delivered_per_s)),
        accepted_to_delivered_p50_ms: middle(bursts.map(({ p50 }) => p50)),
        accepted_to_delivered_p99_ms: middle(bursts.map(({ p99 }) => p99)),
      }
      return { result, budgets: { 'ratio ≥ 0.7': ratio >= 0.7 } }
    }),
}
