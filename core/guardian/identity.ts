import type { Redis } from 'ioredis'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { type BucketSnapshot, snapshot } from '../../lua/stock.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import { groupEntries } from '../claim/batch.ts'
import { arrayOf } from '../claim/issue.sql.ts'
import type { Deps } from '../deps.ts'

export type IdentityDeps = Pick<Deps, 'db' | 'redis' | 'runner'>

/** A bucket whose gate was primed at that instant. */
export interface PrimedBucket extends Bucket {
  primedAtMs: number
  /** A ballot's entries take no stock, so there is no acceptance to count. */
  ballot: boolean
  tailPolicy: TailPolicy
  /** Stock of its campaign that is in no bucket: unallocated, or in transit. */
  elsewhere: number
}

export type Finding =
  | { holds: true }
  | { holds: false; why: 'gate_missing' | 'backlog' | 'identity_broken'; detail: string }

/** With more than this in the log the drain is waited for: the check holds all of it in memory. */
const entriesMax = 2_000
const pageEntries = 200
/** The count may have to read all claims. */
const countTimeoutMs = 120_000
/** A claim can't be older than its gate, whatever the clocks of Redis and of the core. */
const clocksApartMs = 86_400_000

interface Logged {
  userId: string
  requestId: string
  entryId: string
  position: number
}

/**
 * Whether buckets in Redis are what the ledger makes them: accepted = the ledger's claims up to the watermark + what
 * only the log knows yet. It holds after a plain restart, and while claims flow; it does not after anything that
 * made Redis forget acceptances that the ledger has. The log is read after the snapshot and before the ledger, so
 * that a claim on its way from one to the other is seen at least once, and by its request id only once.
 */
export async function checkIdentity(
  deps: IdentityDeps,
  buckets: readonly PrimedBucket[],
): Promise<Finding[]> {
  const snapshots: (BucketSnapshot | undefined)[] = []
  const logs: Logged[][] = []
  for (const bucket of buckets) {
    const shot = await snapshot(deps.runner, bucket)
    snapshots.push(shot)
    logs.push(isCountable(bucket, shot) ? await readLog(deps.redis, bucket, shot.watermark) : [])
  }
  const counts = await countClaims(deps, buckets, snapshots, logs)
  return buckets.map((bucket, i) => judge(bucket, snapshots[i], counts[i]!))
}

function isCountable(bucket: PrimedBucket, shot: BucketSnapshot | undefined): shot is BucketSnapshot {
  return shot !== undefined && !bucket.ballot && shot.entries <= entriesMax
}

function judge(bucket: PrimedBucket, shot: BucketSnapshot | undefined, counted: number): Finding {
  if (shot === undefined)
    return { holds: false, why: 'gate_missing', detail: 'the gate is gone; it needs a rebuild' }
  if (shot.allocated !== shot.remaining + shot.accepted - shot.returned)
    return {
      holds: false,
      why: 'identity_broken',
      detail: `allocated ${shot.allocated} is not remaining ${shot.remaining} + accepted ${shot.accepted} − returned ${shot.returned}`,
    }
  if (bucket.ballot) return { holds: true }
  if (shot.entries > entriesMax)
    return { holds: false, why: 'backlog', detail: `${shot.entries} entries must be drained first` }
  if (shot.accepted !== counted)
    return {
      holds: false,
      why: 'identity_broken',
      detail: `Redis accepted ${shot.accepted}, the ledger and the log have ${counted}`,
    }
  return { holds: true }
}

async function readLog(redis: Redis, bucket: Bucket, watermark: string): Promise<Logged[]> {
  const logged: Logged[] = []
  for (let after = '-'; ; ) {
    const page = await redis.xrange(logKey(bucket), after, watermark, 'COUNT', pageEntries)
    const entries = page.map(([id, fields]) => ({ id, fields: fields ?? [] }))
    for (const { claims } of groupEntries(entries))
      for (const { userId, requestId, entry, position } of claims)
        logged.push({ userId, requestId, entryId: entry.id, position })
    if (page.length < pageEntries) return logged
    after = `(${page.at(-1)![0]}`
  }
}

/** The claims of each bucket up to its watermark, in the ledger or in its log: all from one instant of the ledger. */
async function countClaims(
  { db }: IdentityDeps,
  buckets: readonly PrimedBucket[],
  snapshots: readonly (BucketSnapshot | undefined)[],
  logs: readonly Logged[][],
): Promise<number[]> {
  const watermarks = snapshots.map((shot) => (shot?.watermark ?? '0-0').split('-').map(Number))
  const logged = logs.flatMap((log, n) => log.map((claim) => ({ ...claim, n })))
  const oldestMs = Math.min(...buckets.map(({ primedAtMs }) => primedAtMs)) - clocksApartMs
  return db.admin.transaction(async (tx) => {
    await tx`SELECT set_config('statement_timeout', ${String(countTimeoutMs)}, true)`
    const rows = await tx<{ n: number; claims: number }[]>`
      WITH b AS (
        SELECT * FROM unnest(
          ${arrayOf(buckets.map((_, n) => n))}::integer[],
          ${arrayOf(buckets.map(({ campaignId }) => campaignId))}::text[],
          ${arrayOf(buckets.map(({ bucket }) => bucket))}::integer[],
          ${arrayOf(watermarks.map(([ms]) => ms!))}::bigint[],
          ${arrayOf(watermarks.map(([, seq]) => seq!))}::bigint[]
        ) AS b(n, campaign_id, bucket, ms, seq)
      ), known AS (
        SELECT b.n, count(*) AS claims
        FROM b JOIN claims c ON c.campaign_id = b.campaign_id AND c.bucket = b.bucket
          AND (c.entry_ms, c.entry_seq) <= (b.ms, b.seq)
        WHERE c.entry_ms >= ${oldestMs}
        GROUP BY b.n
      ), dead AS (
        SELECT b.n, sum(CASE WHEN d.position < 0 THEN greatest(0, cardinality(d.fields) / 2 - 1) ELSE 1 END)::bigint
          AS claims
        FROM b JOIN dead_letters d ON d.campaign_id = b.campaign_id AND d.bucket = b.bucket
        WHERE d.state <> 'REPLAYED'
        GROUP BY b.n
      ), waiting AS (
        SELECT i.n, count(*) AS claims
        FROM unnest(
          ${arrayOf(logged.map(({ n }) => n))}::integer[],
          ${arrayOf(logged.map(({ userId }) => userId))}::text[],
          ${arrayOf(logged.map(({ requestId }) => requestId))}::uuid[],
          ${arrayOf(logged.map(({ entryId }) => entryId))}::text[],
          ${arrayOf(logged.map(({ position }) => position))}::integer[]
        ) AS i(n, user_id, request_id, entry_id, position)
        JOIN b USING (n)
        WHERE NOT EXISTS (SELECT 1 FROM claims c WHERE c.user_id = i.user_id AND c.request_id = i.request_id)
          AND NOT EXISTS (
            SELECT 1 FROM dead_letters d WHERE d.campaign_id = b.campaign_id AND d.bucket = b.bucket
              AND d.entry_id = i.entry_id AND d.position = i.position)
        GROUP BY i.n
      )
      SELECT b.n, coalesce(known.claims, 0) + coalesce(dead.claims, 0) + coalesce(waiting.claims, 0) AS claims
      FROM b LEFT JOIN known USING (n) LEFT JOIN dead USING (n) LEFT JOIN waiting USING (n)
      ORDER BY b.n`
    return rows.map(({ claims }) => claims)
  })
}
