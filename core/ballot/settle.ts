import { type Settlement, settle } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { ballotMachine, type ClaimRejection } from '../../schema/states.ts'
import {
  type Claimant,
  columnsOf,
  insertCoupons,
  insertLedger,
  type Outcome,
  type Tx,
  tellDelivered,
  tellRejected,
} from '../claim/issue.sql.ts'
import { type RuleBook, validityAt } from '../claim/rules.ts'
import { couponIdOf } from '../claim/uuid7.ts'
import type { DrawDeps } from './draw.ts'
import {
  campaignStateOf,
  deliverClaims,
  lockEntries,
  lockLots,
  moveLots,
  type OpenLot,
  rejectClaims,
  takeStock,
} from './settle.sql.ts'

/**
 * Carries out a draw: winners' entries become coupons, the others are rejected, both with ledger and outbox in the
 * same transaction; then Redis is told. Each lot says how far it has come, so that this may stop anywhere and be
 * done by anyone.
 */

export interface SettleDeps extends DrawDeps {
  ruleBook: RuleBook
}

const actor = 'ballot'

/** Until nothing of this drawn ballot is left to do. Throws where a store fails; the next round goes on. */
export async function settleBallot(deps: SettleDeps, campaignId: string): Promise<void> {
  while ((await decideSome(deps, campaignId)) > 0);
  while ((await markSome(deps, campaignId)) > 0);
  while ((await rejectSome(deps, campaignId, 'REJECTED_DUPLICATE')) > 0);
  await deps.db.admin.sql`
    UPDATE ballots SET state = ${ballotMachine.move('DRAWN', 'SETTLED')}, version = version + 1,
      settled_at = ${new Date(deps.clock())}
    WHERE campaign_id = ${campaignId} AND state = 'DRAWN'
      AND NOT EXISTS (SELECT 1 FROM ballot_lots WHERE campaign_id = ${campaignId} AND state <> 'MARKED')`
}

/** Rejects all entries of a campaign that was voided before its draw. */
export async function cancelBallot(deps: SettleDeps, campaignId: string): Promise<void> {
  while ((await rejectSome(deps, campaignId, 'REJECTED_CANCELLED')) > 0);
  await deps.db.admin.sql`
    UPDATE ballots SET state = ${ballotMachine.move('OPEN', 'CANCELLED')}, version = version + 1
    WHERE campaign_id = ${campaignId} AND state = 'OPEN'`
}

function decideSome(deps: SettleDeps, campaignId: string): Promise<number> {
  return deps.db.admin.transaction(async (tx) => {
    const lots = await lockLots(tx, campaignId, 'DRAWN', limits.ballotBatchMax)
    const [first] = lots
    if (first === undefined) return 0
    const nowMs = deps.clock()
    const { validity, inFlight } = await deps.ruleBook(campaignId, first.rule_version, tx)
    // Entries of one rule version share their validity; the others come in a later batch.
    const batch = lots.filter((lot) => lot.rule_version === first.rule_version)
    const cancelled = inFlight === 'cancel' && (await campaignStateOf(tx, campaignId)) === 'VOIDED'
    const winners = cancelled ? [] : batch.filter(({ won }) => won)
    const others = cancelled ? batch : batch.filter(({ won }) => !won)
    await issueWinners(tx, campaignId, first.rule_version, validityAt(validity, nowMs), winners, nowMs)
    const reason: ClaimRejection = cancelled ? 'REJECTED_CANCELLED' : 'REJECTED_NOT_CHOSEN'
    await reject(
      tx,
      campaignId,
      others.map((lot) => rejectionOf(lot, reason)),
      nowMs,
    )
    await moveLots(tx, campaignId, batch, 'DRAWN', 'DECIDED')
    return batch.length
  })
}

const claimOf = (row: { user_id: string; request_id: string }): Claimant => ({
  userId: row.user_id,
  requestId: row.request_id,
})

function rejectionOf(
  row: { user_id: string; request_id: string },
  reason: ClaimRejection,
): Outcome<Claimant> {
  return { claim: claimOf(row), couponId: null, claimSeq: null, reason }
}

async function issueWinners(
  tx: Tx,
  campaignId: string,
  ruleVersion: number,
  validity: { from: string; to: string },
  winners: readonly OpenLot[],
  nowMs: number,
): Promise<void> {
  if (winners.length === 0) return
  const now = new Date(nowMs).toISOString()
  const wanted = winners.map(
    (lot): Outcome<Claimant> => ({
      claim: claimOf(lot),
      couponId: couponIdOf(lot.request_id),
      claimSeq: 1,
      reason: null,
    }),
  )
  // An entry that is no longer PROCESSING, as after a person's decision, is left as it is.
  const held = new Set((await deliverClaims(tx, wanted, now)).map((row) => row.request_id))
  const issued = columnsOf(wanted.filter(({ claim }) => held.has(claim.requestId)))
  if (held.size === 0) return
  await insertCoupons(tx, campaignId, ruleVersion, validity, issued, now)
  await insertLedger(tx, campaignId, { kind: 'coupon.issued', to: 'AVAILABLE', actor }, issued, nowMs)
  await tellDelivered(tx, campaignId, validity, issued, now)
  const { count } = await takeStock(tx, campaignId, held.size)
  if (count !== 1) throw new Error('the stock does not allow the ballot’s winners')
}

async function reject(
  tx: Tx,
  campaignId: string,
  wanted: readonly Outcome<Claimant>[],
  nowMs: number,
): Promise<void> {
  if (wanted.length === 0) return
  const now = new Date(nowMs).toISOString()
  const held = new Set((await rejectClaims(tx, wanted, now)).map((row) => row.request_id))
  const rejected = columnsOf(wanted.filter(({ claim }) => held.has(claim.requestId)))
  if (held.size === 0) return
  await insertLedger(tx, campaignId, { kind: 'claim.rejected', to: 'REJECTED', actor }, rejected, nowMs)
  await tellRejected(tx, rejected, now)
}

/** Marks in Redis what the ledger has decided. By the claims and not the lots: that is what was committed. */
function markSome(deps: SettleDeps, campaignId: string): Promise<number> {
  return deps.db.admin.transaction(async (tx) => {
    const lots = await lockLots(tx, campaignId, 'DECIDED', limits.ballotBatchMax)
    if (lots.length === 0) return 0
    const delivered = new Set(
      (
        await tx<{ request_id: string }[]>`
          SELECT c.request_id FROM claims c JOIN ballot_lots l USING (user_id, campaign_id, request_id)
          WHERE l.campaign_id = ${campaignId} AND l.state = 'DECIDED' AND c.status = 'DELIVERED'`
      ).map((row) => row.request_id),
    )
    await mark(deps, campaignId, lots, ({ request_id }) => (delivered.has(request_id) ? 'D' : 'X'))
    await moveLots(tx, campaignId, lots, 'DECIDED', 'MARKED')
    return lots.length
  })
}

function rejectSome(deps: SettleDeps, campaignId: string, reason: ClaimRejection): Promise<number> {
  return deps.db.admin.transaction(async (tx) => {
    const entries = await lockEntries(tx, campaignId, limits.ballotBatchMax)
    if (entries.length === 0) return 0
    const rows = entries.map((entry) => rejectionOf(entry, reason))
    await reject(tx, campaignId, rows, deps.clock())
    // Before the commit, since nothing would remember it after: doing it again, and first, changes nothing.
    await mark(deps, campaignId, entries, () => 'X')
    return entries.length
  })
}

async function mark<E extends { user_id: string; request_id: string; bucket: number }>(
  { runner }: SettleDeps,
  campaignId: string,
  entries: readonly E[],
  letterOf: (entry: E) => Settlement['state'],
): Promise<void> {
  const byBucket = Map.groupBy(entries, ({ bucket }) => bucket)
  for (const [bucket, some] of byBucket)
    await settle(
      runner,
      { campaignId, bucket },
      [],
      some.map((entry) => ({ ...claimOf(entry), state: letterOf(entry) })),
    )
}
