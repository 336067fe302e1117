import { deposit, type Move as GateMove, withdraw } from '../../lua/transfer.ts'
import type { TransferReason } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import { transferMachine } from '../../schema/states.ts'
import { causeOf } from '../claim/failures.ts'
import { arrayOf, type Tx } from '../claim/issue.sql.ts'
import { uuid7 } from '../claim/uuid7.ts'
import type { Deps } from '../deps.ts'
import type { Move } from './tail.ts'

/**
 * Moves stock between buckets and the campaign's unallocated stock: PLANNED → WITHDRAWN → DEPOSITED (DESIGN §4).
 * Each step asks Redis first, which does it once for its id however often it is asked, and then writes what Redis
 * said into the row and into the ledger's balance, in one transaction. So a crash between the two only means
 * asking again, and a transfer is finished from its row alone, by any process.
 */

export type TransferDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

interface Transfer {
  transfer_id: string
  from_bucket: number | null
  to_bucket: number | null
  requested: number
  amount: number | null
  version: number
}

/** Inserts PLANNED transfers. @returns their ids, in order. */
export async function planTransfers(
  tx: Tx,
  campaignId: string,
  reason: TransferReason,
  moves: readonly Move[],
  nowMs: number,
): Promise<string[]> {
  if (moves.length === 0) return []
  const ids = moves.map(() => uuid7(nowMs))
  const now = new Date(nowMs).toISOString()
  await tx`
    INSERT INTO transfers (transfer_id, campaign_id, from_bucket, to_bucket, requested, state, reason,
      created_at, updated_at)
    SELECT transfer_id, ${campaignId}, from_bucket, to_bucket, requested, ${transferMachine.initial}, ${reason},
      ${now}::timestamptz, ${now}::timestamptz
    FROM unnest(
      ${arrayOf(ids)}::uuid[],
      ${arrayOf(moves.map(({ from }) => from))}::integer[],
      ${arrayOf(moves.map(({ to }) => to))}::integer[],
      ${arrayOf(moves.map(({ amount }) => amount))}::bigint[]
    ) AS i(transfer_id, from_bucket, to_bucket, requested)`
  return ids
}

/**
 * Takes the campaign's open transfers as far as they come now. A gate that is away keeps its own transfers only.
 * @returns how many it took a step further.
 */
export async function advanceTransfers(deps: TransferDeps, campaignId: string): Promise<number> {
  let moved = 0
  for (;;) {
    const withdrawn = await withdrawStep(deps, campaignId)
    const deposited = await depositStep(deps, campaignId)
    moved += withdrawn + deposited
    if (withdrawn + deposited === 0) return moved
  }
}

/** Finishes what a crash left, of all campaigns. @returns how many steps were made. */
export async function resumeTransfers(deps: TransferDeps): Promise<number> {
  const open = await deps.db.admin.sql<{ campaign_id: string }[]>`
    SELECT DISTINCT campaign_id FROM transfers WHERE state <> 'DEPOSITED'`
  let moved = 0
  for (const { campaign_id } of open) {
    try {
      moved += await advanceTransfers(deps, campaign_id)
    } catch (error) {
      deps.log.warn({ campaign_id, cause: causeOf(error) }, 'transfers stay open; the next round goes on')
    }
  }
  return moved
}

function withdrawStep(deps: TransferDeps, campaignId: string): Promise<number> {
  return deps.db.admin.transaction(async (tx) => {
    const planned = await lockOpen(tx, campaignId, 'PLANNED')
    if (planned.length === 0) return 0
    await lockBuckets(
      tx,
      campaignId,
      planned.map(({ from_bucket }) => from_bucket),
    )
    const unrecorded = await findUndeposited(tx, campaignId)
    const open = planned.filter(({ from_bucket }) => from_bucket === null || !unrecorded.has(from_bucket))
    const said = await askGates(deps, campaignId, open, 'from_bucket')
    const taken: Taken[] = open.flatMap((transfer, i) =>
      typeof said[i] === 'number' ? [{ transfer, amount: said[i] }] : [],
    )
    const loose = open.filter(({ from_bucket }) => from_bucket === null)
    taken.push(...(await takeUnallocated(tx, campaignId, loose)))
    await recordAllocated(tx, campaignId, taken, 'from_bucket', -1)
    return record(tx, taken, 'PLANNED', 'WITHDRAWN', deps.clock())
  })
}

function depositStep(deps: TransferDeps, campaignId: string): Promise<number> {
  return deps.db.admin.transaction(async (tx) => {
    const open = await lockOpen(tx, campaignId, 'WITHDRAWN')
    if (open.length === 0) return 0
    await lockBuckets(
      tx,
      campaignId,
      open.map(({ to_bucket }) => to_bucket),
    )
    const said = await askGates(deps, campaignId, open, 'to_bucket')
    const given = open.flatMap((transfer, i) =>
      transfer.to_bucket === null || typeof said[i] === 'number'
        ? [{ transfer, amount: transfer.amount! }]
        : [],
    )
    await recordAllocated(tx, campaignId, given, 'to_bucket', 1)
    const back = given.filter(({ transfer }) => transfer.to_bucket === null)
    const sum = back.reduce((all, { amount }) => all + amount, 0)
    if (sum > 0)
      await tx`
        UPDATE campaign_stock SET unallocated = unallocated + ${sum}::bigint WHERE campaign_id = ${campaignId}`
    return record(tx, given, 'WITHDRAWN', 'DEPOSITED', deps.clock())
  })
}

/** What another process is at is left to it. */
function lockOpen(tx: Tx, campaignId: string, state: 'PLANNED' | 'WITHDRAWN'): Promise<Transfer[]> {
  return tx<Transfer[]>`
    SELECT transfer_id, from_bucket, to_bucket, requested, amount, version FROM transfers
    WHERE campaign_id = ${campaignId} AND state = ${state}
    ORDER BY transfer_id LIMIT ${limits.transfersAtOnceMax}
    FOR UPDATE SKIP LOCKED`
}

/** From before Redis is asked until what it said stands in the ledger, nobody may rebuild the gate from the ledger. */
async function lockBuckets(tx: Tx, campaignId: string, buckets: readonly (number | null)[]): Promise<void> {
  const some = [...new Set(buckets)].filter((bucket) => bucket !== null)
  if (some.length > 0)
    await tx`
      SELECT 1 FROM buckets WHERE campaign_id = ${campaignId} AND bucket = ANY(${arrayOf(some)}::integer[])
      ORDER BY bucket FOR UPDATE`
}

/**
 * Buckets that may hold stock which the ledger doesn't know of yet, since a crash left a deposit there. They give
 * none before that stands in the ledger: their balance in it would fall below nothing.
 */
async function findUndeposited(tx: Tx, campaignId: string): Promise<Set<number>> {
  const rows = await tx<{ to_bucket: number }[]>`
    SELECT DISTINCT to_bucket FROM transfers
    WHERE campaign_id = ${campaignId} AND state = 'WITHDRAWN' AND to_bucket IS NOT NULL`
  return new Set(rows.map((row) => row.to_bucket))
}

/** What each gate moved, now or at an earlier attempt; undefined where there is no gate to ask, or no answer. */
function askGates(
  { runner, log }: TransferDeps,
  campaignId: string,
  open: readonly Transfer[],
  end: 'from_bucket' | 'to_bucket',
): Promise<(number | undefined)[]> {
  return Promise.all(
    open.map(async (transfer) => {
      const bucket = transfer[end]
      if (bucket === null) return undefined
      const at = { campaignId, bucket }
      try {
        // Nothing to put in: the epoch need not grow for it.
        if (end === 'to_bucket' && transfer.amount === 0) return 0
        const move: GateMove =
          end === 'from_bucket'
            ? await withdraw(runner, at, transfer.transfer_id, transfer.requested)
            : await deposit(runner, at, transfer.transfer_id, transfer.amount!)
        return move.outcome === 'not_ready' ? undefined : move.amount
      } catch (error) {
        log.warn({ ...at, transfer_id: transfer.transfer_id, cause: causeOf(error) }, 'a transfer waits')
        return undefined
      }
    }),
  )
}

interface Taken {
  transfer: Transfer
  amount: number
}

/** One after the other, as far as it goes. */
async function takeUnallocated(tx: Tx, campaignId: string, open: readonly Transfer[]): Promise<Taken[]> {
  if (open.length === 0) return []
  const [stock] = await tx<{ unallocated: number }[]>`
    SELECT unallocated FROM campaign_stock WHERE campaign_id = ${campaignId} FOR UPDATE`
  const had = stock!.unallocated
  let left = had
  const taken = open.map((transfer) => {
    const amount = Math.min(transfer.requested, left)
    left -= amount
    return { transfer, amount }
  })
  await tx`
    UPDATE campaign_stock SET unallocated = unallocated - ${had - left}::bigint WHERE campaign_id = ${campaignId}`
  return taken
}

async function recordAllocated(
  tx: Tx,
  campaignId: string,
  moved: readonly Taken[],
  end: 'from_bucket' | 'to_bucket',
  sign: 1 | -1,
): Promise<void> {
  const sums = new Map<number, number>()
  for (const { transfer, amount } of moved) {
    const bucket = transfer[end]
    if (bucket !== null && amount > 0) sums.set(bucket, (sums.get(bucket) ?? 0) + sign * amount)
  }
  if (sums.size === 0) return
  await tx`
    UPDATE buckets b SET allocated = b.allocated + i.amount
    FROM unnest(${arrayOf([...sums.keys()])}::integer[], ${arrayOf([...sums.values()])}::bigint[])
      AS i(bucket, amount)
    WHERE b.campaign_id = ${campaignId} AND b.bucket = i.bucket`
}

/** Conditional on what was read: of two at once, one moves it. A row that is not as it was fails the whole step. */
async function record(
  tx: Tx,
  moved: readonly Taken[],
  from: 'PLANNED' | 'WITHDRAWN',
  to: 'WITHDRAWN' | 'DEPOSITED',
  nowMs: number,
): Promise<number> {
  if (moved.length === 0) return 0
  const { count } = await tx`
    UPDATE transfers t
    SET state = ${transferMachine.move(from, to)}, amount = i.amount, version = t.version + 1,
        updated_at = ${new Date(nowMs).toISOString()}::timestamptz
    FROM unnest(
      ${arrayOf(moved.map(({ transfer }) => transfer.transfer_id))}::uuid[],
      ${arrayOf(moved.map(({ amount }) => amount))}::bigint[],
      ${arrayOf(moved.map(({ transfer }) => transfer.version))}::bigint[]
    ) AS i(transfer_id, amount, version)
    WHERE t.transfer_id = i.transfer_id AND t.state = ${from} AND t.version = i.version`
  if (count !== moved.length) throw new Error('a transfer changed while it was locked')
  return moved.length
}

/**
 * What transfers did to a bucket by the ledger, for the rebuild of its gate: id and signed amount. Whoever rebuilds
 * holds the bucket's row from before this until the gate is open.
 */
export async function movesOf(
  tx: Tx,
  { campaignId, bucket }: { campaignId: string; bucket: number },
): Promise<[id: string, signedAmount: number][]> {
  const rows = await tx<{ transfer_id: string; signed: number }[]>`
    SELECT transfer_id, CASE WHEN from_bucket = ${bucket} THEN -amount ELSE amount END AS signed
    FROM transfers
    WHERE campaign_id = ${campaignId}
      AND ((from_bucket = ${bucket} AND state <> 'PLANNED') OR (to_bucket = ${bucket} AND state = 'DEPOSITED'))`
  return rows.map((row) => [row.transfer_id, row.signed])
}
