import type { Bucket } from '../../lua/keys.ts'
import type { Rules } from '../../schema/rules.ts'
import type { CampaignState, ClaimRejection, ClaimState } from '../../schema/states.ts'
import { arrayOf, type Columns, type Tx } from '../claim/issue.sql.ts'

/** The statements about claims that wait for a decision. */

/** Opens a review of each claim that the gate held, in the transaction that records them. */
export function insertReviews(
  tx: Tx,
  bucket: Bucket,
  review: Rules['review'],
  columns: Columns,
  nowMs: number,
) {
  const dueAt = review === undefined ? null : new Date(nowMs + review.after_s * 1000).toISOString()
  return tx`
    INSERT INTO reviews (user_id, request_id, campaign_id, bucket, cause, due_at, due_verdict, opened_at)
    SELECT user_id, request_id, ${bucket.campaignId}, ${bucket.bucket}::integer, 'held', ${dueAt}::timestamptz,
      ${review?.verdict ?? null}, ${new Date(nowMs).toISOString()}::timestamptz
    FROM unnest(${columns.userIds}::text[], ${columns.requestIds}::uuid[]) AS i(user_id, request_id)`
}

/** A claim under review, and what it takes to decide on it. */
export interface ReviewedClaim {
  user_id: string
  request_id: string
  campaign_id: string
  bucket: number
  rule_version: number
  status: ClaimState
}

/** Takes the claim's row: of two that decide at once, the second sees what the first decided. */
export async function lockClaim(tx: Tx, requestId: string): Promise<ReviewedClaim | undefined> {
  const [row] = await tx<ReviewedClaim[]>`
    SELECT c.user_id, c.request_id, c.campaign_id, c.bucket, c.rule_version, c.status
    FROM reviews r JOIN claims c USING (user_id, request_id)
    WHERE r.request_id = ${requestId}
    FOR UPDATE OF c`
  return row
}

/** What the campaign and the user's coupons allow; the campaign's stock stays locked. */
export async function readStanding(tx: Tx, campaignId: string, userId: string) {
  const [stock] = await tx<{ quota: number; issued: number; per_user_limit: number; state: CampaignState }[]>`
    SELECT s.quota, s.issued, c.per_user_limit, c.state
    FROM campaign_stock s JOIN campaigns c USING (campaign_id)
    WHERE s.campaign_id = ${campaignId}
    FOR UPDATE OF s`
  const taken = await tx<{ claim_seq: number }[]>`
    SELECT claim_seq FROM coupons WHERE user_id = ${userId} AND campaign_id = ${campaignId}`
  return { stock: stock!, taken: taken.map(({ claim_seq }) => claim_seq) }
}

/** REVIEW → its end. */
export async function closeClaim(
  tx: Tx,
  claim: ReviewedClaim,
  end: { couponId: string } | { reason: ClaimRejection },
  nowMs: number,
): Promise<void> {
  const to: ClaimState = 'couponId' in end ? 'DELIVERED' : 'REJECTED'
  const { count } = await tx`
    UPDATE claims
    SET status = ${to}, coupon_id = ${'couponId' in end ? end.couponId : null},
      reason = ${'reason' in end ? end.reason : null}, settled_at = ${new Date(nowMs)}, version = version + 1
    WHERE user_id = ${claim.user_id} AND request_id = ${claim.request_id} AND status = 'REVIEW'`
  if (count !== 1) throw new Error('a claim under review was decided by someone else')
}

/** OPEN → DECIDED: from now on the users' records in Redis are to be told. */
export async function closeReview(tx: Tx, claim: ReviewedClaim, by: string, nowMs: number): Promise<void> {
  await tx`
    UPDATE reviews SET state = 'DECIDED', decided_by = ${by}, decided_at = ${new Date(nowMs)}
    WHERE user_id = ${claim.user_id} AND request_id = ${claim.request_id} AND state = 'OPEN'`
}

export interface UntoldReview {
  user_id: string
  request_id: string
  campaign_id: string
  bucket: number
  status: ClaimState
}

/** Decided in the ledger and not told to Redis yet: of one claim, or of all. */
export function findUntold(sql: Tx, most: number, requestId?: string) {
  return sql<UntoldReview[]>`
    SELECT r.user_id, r.request_id, r.campaign_id, r.bucket, c.status
    FROM reviews r JOIN claims c USING (user_id, request_id)
    WHERE r.state = 'DECIDED' ${requestId === undefined ? sql`` : sql`AND r.request_id = ${requestId}`}
    ORDER BY r.decided_at LIMIT ${most}`
}

export function markTold(sql: Tx, reviews: readonly UntoldReview[]) {
  return sql`
    UPDATE reviews r SET state = 'CLOSED'
    FROM unnest(
      ${arrayOf(reviews.map((review) => review.user_id))}::text[],
      ${arrayOf(reviews.map((review) => review.request_id))}::uuid[]
    ) AS i(user_id, request_id)
    WHERE r.user_id = i.user_id AND r.request_id = i.request_id AND r.state = 'DECIDED'`
}

export interface DueReview {
  request_id: string
  verdict: 'issue' | 'reject'
}

export function findDue(sql: Tx, nowMs: number, most: number) {
  return sql<DueReview[]>`
    SELECT request_id, due_verdict AS verdict FROM reviews
    WHERE state = 'OPEN' AND due_at <= ${new Date(nowMs)} ORDER BY due_at LIMIT ${most}`
}
