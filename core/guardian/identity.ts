import { type Bucket, logKey, movesKey } from '../../lua/keys.ts'
import type { ScriptRunner } from '../../lua/runner.ts'
import { type BucketSnapshot, snapshot } from '../../lua/stock.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import { groupEntries } from '../claim/batch.ts'
import { arrayOf, type Tx } from '../claim/issue.sql.ts'
import type { Deps } from '../deps.ts'
import type { RedisClient } from '../stores/store.ts'

export type IdentityDeps = Pick<Deps, 'db' | 'stores' | 'runner'>

/** A bucket whose gate was primed at that instant. */
export interface PrimedBucket extends Bucket {
  primedAtMs: number
  /** A ballot's entries take no stock, so there is no acceptance to count. */
  ballot: boolean
  tailPolicy: TailPolicy
  /** Stock of its campaign that is in no bucket: unallocated, or in transit. */
  elsewhere: number
  /** By the ledger; a rebuild gives it another. */
  epoch: number
}

export type Finding =
  | { holds: true }
  | { holds: false; why: 'gate_missing' | 'redis_forgot' | 'backlog' | 'identity_broken'; detail: string }

/** With more than this in the log the drain is waited for: the check holds all of it in memory. */
const entriesMax = 2_000
const pageEntries = 200
/** The count may have to read all claims. */
const countTimeoutMs = 120_000
/** A claim can't be older than its gate, whatever the clocks of Redis and of the core. */
const clocksApartMs = 86_400_000
/** A transfer holds a bucket's row for some calls to Redis. */
const rowWaitMs = 2_000

interface Logged {
  userId: string
  requestId: string
  entryId: string
  position: number
}

/** What the ledger knows of a bucket beside its claims. */
interface Promised {
  /** The newest that the gate has confirmed. */
  configVersion: number
  /** Compensations that Redis has carried out. */
  returned: number
  /** With the transfers that the gate did and the ledger has not recorded yet. */
  allocated: number
  /** A log entry that the ledger knows and the log has never had: undefined when there is none. */
  ahead: string | undefined
}

/**
 * Whether buckets in Redis are what the ledger makes them, at one instant of Redis (the watermark): accepted = the
 * ledger's claims up to it + what only the log knows yet; no compensation and no transfer that the ledger counts is
 * missing. It holds after a plain restart, and while claims flow; it does not after anything that made Redis forget.
 * The log is read after the snapshot and before the ledger, so that a claim on its way from one to the other is seen
 * at least once, and by its request id only once.
 */
export async function checkIdentity(
  deps: IdentityDeps,
  buckets: readonly PrimedBucket[],
): Promise<Finding[]> {
  const snapshots: (BucketSnapshot | undefined)[] = []
  const promised: Promised[] = []
  const logs: Logged[][] = []
  for (const bucket of buckets) {
    const [shot, known] = await compareStock(deps, bucket)
    snapshots.push(shot)
    promised.push(known)
    logs.push(
      isCountable(bucket, shot)
        ? await readLog(deps.stores.of(bucket.campaignId).client, bucket, shot.watermark)
        : [],
    )
  }
  const counts = await countClaims(deps, buckets, snapshots, logs)
  return buckets.map((bucket, i) => judge(bucket, snapshots[i], promised[i]!, counts[i]!))
}

/**
 * The gate, and what the ledger says of its stock. A transfer holds the bucket's row from before it asks Redis until
 * it stands in the ledger: while we hold it, only one that a crash left in between can be in one and not in the other,
 * and the gate says which. A compensation is carried out before it is recorded, so the ledger is read first.
 */
function compareStock(
  { db, stores, runner }: IdentityDeps,
  bucket: PrimedBucket,
): Promise<[BucketSnapshot | undefined, Promised]> {
  const { campaignId, bucket: number } = bucket
  return db.admin.transaction(async (tx) => {
    await tx`SELECT set_config('lock_timeout', ${String(rowWaitMs)}, true)`
    const [row] = await tx<Omit<Promised, 'ahead'>[]>`
      SELECT b.allocated, b.config_version AS "configVersion", (
          SELECT count(*) FROM compensations k WHERE k.campaign_id = b.campaign_id AND k.bucket = b.bucket
            AND k.state IN ('APPLIED', 'CLOSED')
        ) AS returned
      FROM buckets b WHERE b.campaign_id = ${campaignId} AND b.bucket = ${number}
      FOR SHARE OF b`
    const open = await tx<{ transfer_id: string }[]>`
      SELECT transfer_id FROM transfers
      WHERE campaign_id = ${campaignId} AND ((state = 'PLANNED' AND from_bucket = ${number})
        OR (state = 'WITHDRAWN' AND to_bucket = ${number}))`
    const shot = await snapshot(runner, bucket)
    const ids = open.map(({ transfer_id }) => transfer_id)
    const done = ids.length === 0 ? [] : await stores.of(campaignId).client.hmget(movesKey(bucket), ...ids)
    const unrecorded = done.reduce((sum, move) => sum + Number(move ?? 0), 0)
    const ahead = shot === undefined ? undefined : await entryAhead(tx, runner, bucket, shot.watermark)
    const { returned = 0, allocated = 0, configVersion = 0 } = row ?? {}
    return [shot, { returned, allocated: allocated + unrecorded, configVersion, ahead }]
  })
}

/**
 * Up to an old watermark everything may agree: a replica that took over behind the ledger is a whole gate of some
 * moments ago. So the ledger must know no entry beyond what the log has reached. What it has beyond the snapshot may
 * have come since; then a second look at the log, which is later than that look at the ledger, decides.
 */
async function entryAhead(
  tx: Tx,
  runner: ScriptRunner,
  bucket: Bucket,
  watermark: string,
): Promise<string | undefined> {
  const [ms, seq] = partsOf(watermark)
  const [last] = await tx<{ entry_ms: number; entry_seq: number }[]>`
    SELECT entry_ms, entry_seq FROM claims
    WHERE campaign_id = ${bucket.campaignId} AND bucket = ${bucket.bucket}
      AND entry_ms >= ${ms} AND (entry_ms, entry_seq) > (${ms}, ${seq}) AND entry_seq >= 0
    ORDER BY entry_ms DESC, entry_seq DESC LIMIT 1`
  if (last === undefined) return undefined
  const [reachedMs, reachedSeq] = partsOf((await snapshot(runner, bucket))?.watermark ?? '0-0')
  const reached = last.entry_ms - reachedMs || last.entry_seq - reachedSeq
  return reached > 0 ? `${last.entry_ms}-${last.entry_seq}` : undefined
}

function partsOf(entryId: string): [ms: number, seq: number] {
  const [ms, seq] = entryId.split('-').map(Number)
  return [ms!, seq!]
}

function isCountable(bucket: PrimedBucket, shot: BucketSnapshot | undefined): shot is BucketSnapshot {
  return shot !== undefined && !bucket.ballot && shot.entries <= entriesMax
}

function judge(
  bucket: PrimedBucket,
  shot: BucketSnapshot | undefined,
  promised: Promised,
  counted: number,
): Finding {
  if (shot === undefined)
    return { holds: false, why: 'gate_missing', detail: 'the gate is gone; it needs a rebuild' }
  const broken = (detail: string): Finding => ({ holds: false, why: 'identity_broken', detail })
  const forgot = (detail: string): Finding => ({ holds: false, why: 'redis_forgot', detail })
  if (shot.allocated !== shot.remaining + shot.accepted - shot.returned)
    return broken(
      `allocated ${shot.allocated} is not remaining ${shot.remaining} + accepted ${shot.accepted} − returned ${shot.returned}`,
    )
  if (shot.configVersion < promised.configVersion)
    return forgot(`Redis has configuration ${shot.configVersion}, it had confirmed ${promised.configVersion}`)
  if (bucket.ballot) return { holds: true }
  if (shot.entries > entriesMax)
    return { holds: false, why: 'backlog', detail: `${shot.entries} entries must be drained first` }
  if (shot.accepted < counted)
    return forgot(`Redis accepted ${shot.accepted}, the ledger and the log have ${counted}`)
  if (shot.accepted > counted)
    return broken(`Redis accepted ${shot.accepted}, the ledger and the log have only ${counted}`)
  if (promised.ahead !== undefined)
    return forgot(`Redis’ log ends at ${shot.watermark}, the ledger has entry ${promised.ahead}`)
  if (shot.returned < promised.returned)
    return forgot(`Redis returned ${shot.returned}, the ledger has ${promised.returned} returned`)
  if (shot.allocated !== promised.allocated)
    return forgot(`Redis was given ${shot.allocated}, the ledger gave it ${promised.allocated}`)
  return { holds: true }
}

async function readLog(redis: RedisClient, bucket: Bucket, watermark: string): Promise<Logged[]> {
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
        WHERE c.entry_ms >= ${oldestMs} AND c.entry_seq >= 0
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
