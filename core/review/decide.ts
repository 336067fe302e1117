import { type ClaimRejection, claimMachine } from '../../schema/states.ts'
import { classify } from '../claim/classify.ts'
import {
  columnsOf,
  insertCoupons,
  insertLedger,
  type Outcome,
  oweCompensation,
  raiseIssued,
  type Tx,
  tellDelivered,
  tellRejected,
} from '../claim/issue.sql.ts'
import { type RuleBook, validityAt } from '../claim/rules.ts'
import { couponIdOf } from '../claim/uuid7.ts'
import { Refused } from '../refusal.ts'
import { closeClaim, closeReview, lockClaim, type ReviewedClaim, readStanding } from './review.sql.ts'

/** issue: a coupon, if quota and limit allow. reject. retry: what the rules make of it now. */
export type Verdict = 'issue' | 'reject' | 'retry'

export interface Decision {
  request_id: string
  campaign_id: string
  status: 'DELIVERED' | 'REJECTED'
  coupon_id?: string
  reason?: ClaimRejection
}

/**
 * Ends a claim that is under review, in one transaction with coupon or compensation, ledger and outbox (IS4, IS6).
 * A person's word goes over a pause of the campaign, and never over its quota or a user's limit.
 * @throws Refused CLAIM_NOT_FOUND; CONFLICT when it was decided already, or may not be issued.
 */
export async function decide(
  tx: Tx,
  ruleBook: RuleBook,
  requestId: string,
  verdict: Verdict,
  by: string,
  nowMs: number,
): Promise<Decision> {
  const claim = await lockClaim(tx, requestId)
  if (claim === undefined)
    throw new Refused('CLAIM_NOT_FOUND', { detail: 'No claim with this request id was held for review.' })
  if (claim.status !== 'REVIEW')
    throw new Refused('CONFLICT', { detail: `The claim is ${claim.status}: it was decided already.` })
  const ruling = await ruleOn(tx, ruleBook, claim, verdict)
  await closeReview(tx, claim, by, nowMs)
  return 'claimSeq' in ruling
    ? deliver(tx, ruleBook, claim, ruling.claimSeq, by, nowMs)
    : reject(tx, claim, ruling.reason, by, nowMs)
}

async function ruleOn(
  tx: Tx,
  ruleBook: RuleBook,
  claim: ReviewedClaim,
  verdict: Verdict,
): Promise<{ claimSeq: number } | { reason: ClaimRejection }> {
  if (verdict === 'reject') return { reason: 'REJECTED_BY_OPERATOR' }
  const { inFlight } = await ruleBook(claim.campaign_id, claim.rule_version, tx)
  const { stock, taken } = await readStanding(tx, claim.campaign_id, claim.user_id)
  const stopped = stock.state === 'PAUSED' || stock.state === 'VOIDED'
  const [ruling] = classify([{ userId: claim.user_id, requestId: claim.request_id }], claim.campaign_id, {
    capacity: stock.quota - stock.issued,
    perUserLimit: stock.per_user_limit,
    cancelled: verdict === 'retry' && inFlight === 'cancel' && stopped,
    known: new Map(),
    taken: new Map([[claim.user_id, taken]]),
  })
  if (ruling?.kind === 'issue') return ruling
  if (ruling?.kind !== 'reject') throw new Error('a new claim is either issued or rejected')
  if (verdict === 'retry') return ruling
  throw new Refused('CONFLICT', {
    detail:
      ruling.reason === 'REJECTED_DUPLICATE'
        ? 'The user has as many of these coupons as one may have. Reject the claim.'
        : 'The campaign’s quota is used up. Increase it, or reject the claim.',
    reason: ruling.reason,
  })
}

async function deliver(
  tx: Tx,
  ruleBook: RuleBook,
  claim: ReviewedClaim,
  claimSeq: number,
  by: string,
  nowMs: number,
): Promise<Decision> {
  const { campaign_id: campaignId, rule_version: ruleVersion } = claim
  const validity = validityAt((await ruleBook(campaignId, ruleVersion, tx)).validity, nowMs)
  const couponId = couponIdOf(claim.request_id)
  const rows = columnsOf([{ claim: claimantOf(claim), couponId, claimSeq, reason: null }])
  const now = new Date(nowMs).toISOString()
  const status = claimMachine.move('REVIEW', 'DELIVERED')
  await closeClaim(tx, claim, { couponId }, nowMs)
  await insertCoupons(tx, campaignId, ruleVersion, validity, rows, now)
  await insertLedger(tx, campaignId, { kind: 'coupon.issued', to: 'AVAILABLE', actor: by }, rows, nowMs)
  await tellDelivered(tx, campaignId, validity, rows, now)
  const { count } = await raiseIssued(tx, campaignId, 1)
  if (count !== 1) throw new Error('the quota does not allow a coupon that it just allowed')
  return {
    request_id: claim.request_id,
    campaign_id: campaignId,
    status: status as 'DELIVERED',
    coupon_id: couponId,
  }
}

async function reject(
  tx: Tx,
  claim: ReviewedClaim,
  reason: ClaimRejection,
  by: string,
  nowMs: number,
): Promise<Decision> {
  const { campaign_id: campaignId, bucket } = claim
  const outcome: Outcome<ReturnType<typeof claimantOf>> = {
    claim: claimantOf(claim),
    couponId: null,
    claimSeq: null,
    reason,
  }
  const rows = columnsOf([outcome])
  const now = new Date(nowMs).toISOString()
  const status = claimMachine.move('REVIEW', 'REJECTED')
  await closeClaim(tx, claim, { reason }, nowMs)
  await insertLedger(tx, campaignId, { kind: 'claim.rejected', to: 'REJECTED', actor: by }, rows, nowMs)
  await tellRejected(tx, rows, now)
  await oweCompensation(tx, { campaignId, bucket }, rows, now)
  return {
    request_id: claim.request_id,
    campaign_id: campaignId,
    status: status as 'REJECTED',
    reason,
  }
}

const claimantOf = (claim: ReviewedClaim) => ({ userId: claim.user_id, requestId: claim.request_id })
