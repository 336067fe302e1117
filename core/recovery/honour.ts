import { honour } from '../../lua/honour.ts'
import type { Bucket } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import { packRecord, timeOfRequestId } from '../../schema/acceptance.ts'
import { bucketOf, hash53, keyFingerprint } from '../../schema/hash.ts'
import { limits } from '../../schema/limits.ts'
import { encodeSixbit } from '../../schema/sixbit.ts'
import type { ClaimRejection } from '../../schema/states.ts'
import { type Receipt, unsealReceipt } from '../../schema/tokens.ts'
import { columnsOf, insertClaims, insertLedger, type Tx, tellRejected } from '../claim/issue.sql.ts'
import { type ClaimView, findClaimView } from '../claim/status.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { advanceTransfers, planTransfers } from '../stock/transfer.ts'

/**
 * Honours an acceptance that Redis lost before it was drained, by its receipt (CL15): while there is stock it is
 * accepted again under its own request id and issued like any other; otherwise it is rejected with a reason.
 */

export type HonourDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log' | 'keyrings'>

/**
 * What became of the receipt's claim, and what is done about it now. Repeating it gives the same claim.
 * @param userId who presents it; undefined: an operator, for its user.
 * @throws Refused INVALID_REQUEST (not a receipt of ours, or another user's), NOT_READY (a rebuild is under way)
 */
export async function honourReceipt(
  deps: HonourDeps,
  text: string,
  userId: string | undefined,
): Promise<ClaimView> {
  const receipt = unsealReceipt(text, deps.keyrings.receipt)
  if (receipt === undefined || (userId !== undefined && receipt.userId !== userId))
    throw new Refused('INVALID_REQUEST', { detail: 'Send the receipt of your own claim, unchanged.' })
  const campaign = await findCampaign(deps, receipt.campaignId)
  const bucket: Bucket = {
    campaignId: receipt.campaignId,
    bucket: bucketOf(receipt.userId, receipt.campaignId, campaign.bucket_count),
  }
  const ruleVersion = campaign.rule_version
  return deps.db.admin.transaction(async (tx) => {
    // One at a time for a request: what one finds accepted, another must not reject.
    await tx`SELECT pg_advisory_xact_lock(hashtextextended(${receipt.requestId}, 0))`
    const known = await findClaimView(tx, receipt.userId, receipt.requestId, deps.clock())
    if (known !== undefined) return known
    const reason = await acceptAgain(deps, bucket, receipt)
    if (reason !== undefined) await reject(tx, bucket, ruleVersion, receipt, reason, deps.clock())
    deps.log.info(
      { campaign_id: receipt.campaignId, request_id: receipt.requestId, reason },
      reason === undefined ? 'a lost acceptance is honoured' : 'a lost acceptance can’t be honoured',
    )
    if (reason !== undefined)
      return { request_id: receipt.requestId, status: 'REJECTED', campaign_id: receipt.campaignId, reason }
    return {
      request_id: receipt.requestId,
      status: 'PROCESSING',
      campaign_id: receipt.campaignId,
      poll_after_ms: limits.pollAfterMs,
    }
  })
}

async function findCampaign({ db }: HonourDeps, campaignId: string) {
  const [row] = await db.admin.sql<{ bucket_count: number; rule_version: number; mode: string }[]>`
    SELECT bucket_count, rule_version, mode FROM campaigns
    WHERE campaign_id = ${campaignId} AND state IN ('ACTIVE', 'PAUSED', 'ENDED', 'VOIDED')`
  if (row === undefined) throw new Refused('CAMPAIGN_NOT_FOUND')
  if (row.mode === 'ballot')
    throw new Refused('CONFLICT', {
      detail: 'An entry to a ballot holds no coupon: enter again while it is open.',
    })
  return row
}

/** Undefined: it stands in Redis now. @throws Refused NOT_READY */
async function acceptAgain(
  deps: HonourDeps,
  bucket: Bucket,
  receipt: Receipt,
): Promise<ClaimRejection | undefined> {
  const record = recordOf(receipt)
  for (let brought = false; ; brought = true) {
    const answer = await honour(deps.runner, bucket, receipt.userId, record)
    if (answer === 'accepted' || answer === 'already') return undefined
    if (answer === 'limit') return 'REJECTED_DUPLICATE'
    if (answer === 'not_ready') throw new Refused('NOT_READY', { retry_after_ms: limits.retryAfterMs })
    if (brought || !(await bringOne(deps, bucket))) return 'REJECTED_QUOTA'
  }
}

/** Its key, parameters and token are not in the receipt: others stand for them that no claim can have. */
function partsOf({ requestId }: Receipt) {
  return {
    requestId,
    keyFingerprint: keyFingerprint(`receipt ${requestId}`),
    paramsFingerprint: '----',
    tokenId: encodeSixbit(hash53(`receipt ${requestId}`, 3), 9),
  }
}

function recordOf(receipt: Receipt): string {
  return packRecord({ ...partsOf(receipt), state: 'A' })
}

/** Moves one coupon to this bucket from wherever the campaign has one left. @returns whether it had. */
async function bringOne(deps: HonourDeps, { campaignId, bucket }: Bucket): Promise<boolean> {
  const from = await findSpare(deps, campaignId, bucket)
  if (from === undefined) return false
  await deps.db.admin.transaction((tx) =>
    planTransfers(
      tx,
      campaignId,
      from === null ? 'spread' : 'rebalance',
      [{ from, to: bucket, amount: 1 }],
      deps.clock(),
    ),
  )
  await advanceTransfers(deps, campaignId)
  return true
}

/** The campaign's unallocated stock (null), or its richest other bucket; undefined: nothing is left anywhere. */
async function findSpare(
  { db, runner }: HonourDeps,
  campaignId: string,
  except: number,
): Promise<number | null | undefined> {
  const [stock] = await db.admin.sql<{ unallocated: number; bucket_count: number }[]>`
    SELECT s.unallocated, c.bucket_count FROM campaign_stock s JOIN campaigns c USING (campaign_id)
    WHERE s.campaign_id = ${campaignId}`
  if (stock === undefined) return undefined
  if (stock.unallocated > 0) return null
  let best: { bucket: number; remaining: number } | undefined
  for (let bucket = 0; bucket < stock.bucket_count; bucket++) {
    const gate = bucket === except ? undefined : await snapshot(runner, { campaignId, bucket })
    if (gate !== undefined && gate.remaining > (best?.remaining ?? 0))
      best = { bucket, remaining: gate.remaining }
  }
  return best?.bucket
}

/** Its entry_seq of −1: it took no stock, so none is to be returned and no count of acceptances includes it. */
async function reject(
  tx: Tx,
  bucket: Bucket,
  ruleVersion: number,
  receipt: Receipt,
  reason: ClaimRejection,
  nowMs: number,
): Promise<void> {
  const claim = {
    ...partsOf(receipt),
    userId: receipt.userId,
    acceptedAtMs: timeOfRequestId(receipt.requestId),
    state: 'X' as const,
    entryMs: 0,
    entrySeq: -1,
    entry: { id: '0-0', fields: [] },
    position: 0,
  }
  const rows = columnsOf([{ claim, couponId: null, claimSeq: null, reason }])
  const now = new Date(nowMs).toISOString()
  await insertClaims(tx, bucket, ruleVersion, 'REJECTED', rows, now)
  await insertLedger(
    tx,
    bucket.campaignId,
    { kind: 'claim.rejected', to: 'REJECTED', actor: 'receipt' },
    rows,
    nowMs,
  )
  await tellRejected(tx, rows, now)
}
