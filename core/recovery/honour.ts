import { honour } from '../../lua/honour.ts'
import type { Bucket } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import { packRecord, timeOfRequestId } from '../../schema/acceptance.ts'
import { assertNever } from '../../schema/assert.ts'
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
  const first = await honourOnce(deps, bucket, ruleVersion, receipt, 'look elsewhere')
  if (first !== undefined) return first
  // Not inside of the transaction: whoever waits for a connection there holds one that others wait for.
  await bringOne(deps, bucket)
  return (await honourOnce(deps, bucket, ruleVersion, receipt, 'reject'))!
}

/** Undefined: its bucket is sold out, and another may have stock. */
function honourOnce(
  deps: HonourDeps,
  bucket: Bucket,
  ruleVersion: number,
  receipt: Receipt,
  whenSoldOut: 'reject' | 'look elsewhere',
): Promise<ClaimView | undefined> {
  const { campaignId } = bucket
  const { requestId } = receipt
  return deps.db.query.transaction(async (tx) => {
    // One at a time for a request: what one finds accepted, another must not reject.
    await tx`SELECT pg_advisory_xact_lock(hashtextextended(${requestId}, 0))`
    const known = await findClaimView(tx, receipt.userId, requestId, deps.clock())
    if (known !== undefined) return known
    const reason = await acceptAgain(deps, bucket, receipt)
    if (reason === 'REJECTED_QUOTA' && whenSoldOut === 'look elsewhere') return undefined
    deps.log.info({ campaign_id: campaignId, request_id: requestId, reason }, 'a lost acceptance came back')
    const view = { request_id: requestId, campaign_id: campaignId }
    if (reason === undefined) return { ...view, status: 'PROCESSING', poll_after_ms: limits.pollAfterMs }
    await reject(tx, bucket, ruleVersion, receipt, reason, deps.clock())
    return { ...view, status: 'REJECTED', reason }
  })
}

async function findCampaign({ db }: HonourDeps, campaignId: string) {
  const [row] = await db.query.sql<{ bucket_count: number; rule_version: number; mode: string }[]>`
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
  const answer = await honour(deps.runner, bucket, receipt.userId, recordOf(receipt))
  switch (answer) {
    case 'accepted':
    case 'already':
      return undefined
    case 'limit':
      return 'REJECTED_DUPLICATE'
    case 'sold_out':
      return 'REJECTED_QUOTA'
    case 'not_ready':
      throw new Refused('NOT_READY', { retry_after_ms: limits.retryAfterMs })
    default:
      return assertNever(answer, 'answer')
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

/** Moves one coupon to this bucket from wherever the campaign has one left, if it has. */
async function bringOne(deps: HonourDeps, { campaignId, bucket }: Bucket): Promise<void> {
  const from = await findSpare(deps, campaignId, bucket)
  if (from === undefined) return
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
