import { setTimeout as pause } from 'node:timers/promises'
import type { Bucket } from '../../lua/keys.ts'
import { beginRebuild, finishRebuild, loadRecords } from '../../lua/rebuild.ts'
import { snapshot } from '../../lua/stock.ts'
import { type GateRow, gateConfigOf } from '../campaigns/gates.ts'
import type { Tx } from '../claim/issue.sql.ts'
import { uuid7 } from '../claim/uuid7.ts'
import type { Deps } from '../deps.ts'
import { movesOf } from '../stock/transfer.ts'
import { missingOf, readBalance } from './balance.ts'
import { type BucketLedger, readBucketLedger } from './ledger.ts'

export type RebuildDeps = Pick<Deps, 'db' | 'runner' | 'log' | 'clock'>

/** Who wants it, and why. */
export interface RebuildOrder {
  bucket: Bucket
  cause: string
  actor: string
  role: string
  /** The ledger's epoch of the bucket when the loss was found: with another one, it was rebuilt since. */
  expectedEpoch?: number
  /** An operator's word: open it also where the ledger's own numbers don't add up, with what is certain. */
  force: boolean
}

/** The numbers under which a gate is opened again. */
export interface RebuiltNumbers {
  epoch: number
  allocated: number
  remaining: number
  accepted: number
  settled: number
  returned: number
  users: number
  /** Stock that the ledger has promised twice; 0 unless `force`. */
  written_off: number
}

export type RebuildOutcome =
  | { outcome: 'rebuilt'; numbers: RebuiltNumbers }
  /** It was rebuilt since the loss was found, or there is nothing to rebuild. */
  | { outcome: 'not_needed' }
  /** Another process is at it, or at a transfer of its stock. */
  | { outcome: 'busy' }
  /** Its log has entries, which may be the only word of their claims: closed until they are drained. */
  | { outcome: 'draining'; entries: number }
  /** Redis lost something again meanwhile. */
  | { outcome: 'lost_again' }
  /** The ledger's own numbers don't add up: only an operator's word opens it. */
  | { outcome: 'unbalanced'; detail: string }

/** Reading and loading 100,000 records takes some seconds. */
const transactionMs = 60_000
const usersPerLoad = 500
/** Each rebuild begins an era of epochs: whatever epoch Redis forgot, none of it can come again. */
const era = 2 ** 32
const drainWaitMs = 10_000

/**
 * Makes a bucket's gate again from the ledger (IS10): closes it, waits until the drain has emptied its log, puts
 * back every user's record and the stock that is left, and opens it under a new epoch, without a lease. Its row is
 * held all the while, so that no transfer and no other process comes between. Ending anywhere leaves the bucket
 * closed, and the next attempt begins anew.
 */
export async function rebuildBucket(deps: RebuildDeps, order: RebuildOrder): Promise<RebuildOutcome> {
  const deadline = deps.clock() + drainWaitMs
  for (;;) {
    const result = await attempt(deps, order)
    if (result.outcome !== 'draining' || deps.clock() > deadline) {
      note(deps, order, result)
      return result
    }
    await pause(100)
  }
}

async function attempt(deps: RebuildDeps, order: RebuildOrder): Promise<RebuildOutcome> {
  try {
    return await deps.db.admin.transaction((tx) => rebuildLocked(tx, deps, order))
  } catch (error) {
    if (error instanceof Reopened) return { outcome: 'lost_again' }
    throw error
  }
}

interface BucketRow extends GateRow {
  allocated: number
  epoch: number
  mode: string
  primed: boolean
}

async function rebuildLocked(tx: Tx, deps: RebuildDeps, order: RebuildOrder): Promise<RebuildOutcome> {
  const { bucket, force } = order
  await tx`SELECT set_config('statement_timeout', ${String(transactionMs)}, true),
    set_config('idle_in_transaction_session_timeout', ${String(transactionMs)}, true)`
  const row = await lockRow(tx, bucket)
  if (row === undefined) return { outcome: 'busy' }
  if (!row.primed || (order.expectedEpoch !== undefined && order.expectedEpoch !== row.epoch))
    return { outcome: 'not_needed' }
  const missing = await missingByLedger(tx, row)
  if (missing !== 0 && !force)
    return { outcome: 'unbalanced', detail: `the ledger misses ${missing} of the campaign’s quota` }
  const gate = await snapshot(deps.runner, bucket)
  const entries = await beginRebuild(deps.runner, bucket)
  if (entries > 0) return { outcome: 'draining', entries }
  await returnOwed(tx, bucket, deps.clock())
  const ballot = row.mode === 'ballot'
  const ledger = await readBucketLedger(tx, bucket, ballot)
  const numbers = numbersOf(row, ledger, Math.max(row.epoch, gate?.epoch ?? 0))
  if (numbers.written_off > 0 && !force)
    return {
      outcome: 'unbalanced',
      detail: `more coupons stand in the ledger than its bucket was given: ${numbers.written_off}`,
    }
  return open(tx, deps, order, row, ledger, numbers)
}

/** Undefined: somebody holds it. @throws when there is no such bucket. */
async function lockRow(tx: Tx, { campaignId, bucket }: Bucket): Promise<BucketRow | undefined> {
  const [row] = await tx<BucketRow[]>`
    SELECT b.campaign_id, b.bucket, b.allocated, b.epoch, b.primed_at IS NOT NULL AS primed, c.state, c.mode,
      c.config_version, c.rule_version, c.starts_at, c.ends_at, c.per_user_limit, c.bucket_count, c.drip, c.pace
    FROM buckets b JOIN campaigns c USING (campaign_id)
    WHERE b.campaign_id = ${campaignId} AND b.bucket = ${bucket}
    FOR UPDATE OF b SKIP LOCKED`
  return row
}

/**
 * The stock of claims that the ledger rejected is returned by the rebuild itself: the new gate counts it as there.
 * Otherwise a gate that sold again what Redis had forgotten would owe more than its bucket has, and stay closed while
 * its debts wait for it to open. An answer of the old gate that is still under way finds another version and says
 * nothing any more; the new gate's records say that it was returned.
 */
async function returnOwed(tx: Tx, { campaignId, bucket }: Bucket, nowMs: number): Promise<void> {
  await tx`
    UPDATE compensations
    SET state = 'APPLIED', version = version + 1, updated_at = ${new Date(nowMs).toISOString()}::timestamptz,
      reason = concat_ws(', ', reason, 'returned_by_rebuild')
    WHERE campaign_id = ${campaignId} AND bucket = ${bucket} AND state IN ('PENDING', 'UNKNOWN')`
}

async function missingByLedger(tx: Tx, row: BucketRow): Promise<number> {
  const balance = await readBalance(tx, row.campaign_id)
  if (balance === undefined) throw new Error(`campaign ${row.campaign_id} has buckets and no stock`)
  return missingOf(balance)
}

/** remaining = allocated − what is accepted and not returned; less than nothing is written off. */
export function numbersOf(
  { allocated, mode }: Pick<BucketRow, 'allocated' | 'mode'>,
  { accepted, settled, returned, records }: BucketLedger,
  lastEpoch: number,
): RebuiltNumbers {
  const left = mode === 'ballot' ? allocated : allocated - accepted + returned
  const writtenOff = Math.max(0, -left)
  return {
    epoch: (Math.floor(lastEpoch / era) + 1) * era,
    allocated: allocated + writtenOff,
    remaining: Math.max(0, left),
    accepted,
    settled,
    returned,
    users: records.size,
    written_off: writtenOff,
  }
}

async function open(
  tx: Tx,
  deps: RebuildDeps,
  order: RebuildOrder,
  row: BucketRow,
  ledger: BucketLedger,
  numbers: RebuiltNumbers,
): Promise<RebuildOutcome> {
  const { bucket } = order
  const moves = await movesOf(tx, bucket)
  await record(tx, deps, order, row, numbers)
  const records = [...ledger.records]
  for (let at = 0; at < records.length; at += usersPerLoad)
    if ((await loadRecords(deps.runner, bucket, records.slice(at, at + usersPerLoad))) === 'open')
      throw new Reopened()
  const { written_off: _, ...stock } = numbers
  const { watermark } = ledger
  const config = gateConfigOf(row)
  const reply = await finishRebuild(deps.runner, bucket, config, {
    ...stock,
    moves,
    watermark,
    final: row.bucket_count === 1,
  })
  // Nothing of it may stand in the ledger then.
  if (reply !== 'rebuilt') throw new Reopened()
  return { outcome: 'rebuilt', numbers }
}

/** Somebody or something changed Redis under the rebuild: its transaction is undone. */
class Reopened extends Error {}

/** The bucket's row, and the audit log's word of it: in the transaction that ends when the gate is open. */
async function record(
  tx: Tx,
  { clock }: RebuildDeps,
  { bucket: { campaignId, bucket }, actor, role, cause }: RebuildOrder,
  row: BucketRow,
  numbers: RebuiltNumbers,
): Promise<void> {
  const nowMs = clock()
  const now = new Date(nowMs).toISOString()
  await tx`
    UPDATE buckets
    SET epoch = ${numbers.epoch}::bigint, allocated = ${numbers.allocated}::bigint,
      config_version = ${row.config_version}::bigint, config_reached_at = ${now}::timestamptz
    WHERE campaign_id = ${campaignId} AND bucket = ${bucket}`
  const before = { bucket, epoch: row.epoch, allocated: row.allocated }
  const after = { bucket, ...numbers }
  await tx`
    INSERT INTO audit_log (audit_id, at, actor, role, action, target, outcome, reason, before, after)
    VALUES (${uuid7(nowMs)}, ${now}::timestamptz, ${actor}, ${role}, 'bucket.rebuild', ${campaignId}, 'done',
      ${cause}, ${JSON.stringify(before)}::text::jsonb, ${JSON.stringify(after)}::text::jsonb)`
}

function note({ log }: RebuildDeps, { bucket, cause, actor }: RebuildOrder, result: RebuildOutcome): void {
  const about = { campaign_id: bucket.campaignId, bucket: bucket.bucket, cause, actor, ...result }
  if (result.outcome === 'rebuilt') log.warn(about, 'the bucket was rebuilt from the ledger')
  else if (result.outcome === 'unbalanced')
    log.error(about, 'the bucket is not rebuilt without an operator’s word')
  else log.info(about, 'the bucket is not rebuilt now')
}
