import type { TransactionSql } from 'postgres'
import type { Bucket } from '../../lua/keys.ts'
import type { CampaignState, ClaimRejection, ClaimState, CouponState } from '../../schema/states.ts'
import type { LoggedClaim } from './batch.ts'
import { uuid7 } from './uuid7.ts'

/**
 * The statements of issuing. Each covers a whole batch by unnest, so their number never depends on the batch; the
 * driver pipelines those that are sent together. One statement a table and not one for all: measured, that is a
 * fifth faster than the same inserts as parts of one WITH, whose rows Postgres has to keep in between.
 */

export type Tx = TransactionSql<{ bigint: number }>

/** What most statements need of a claim. */
export type Claimant = Pick<LoggedClaim, 'userId' | 'requestId'>

/** What a claim's own row says of it. */
export type RecordedClaim = Omit<LoggedClaim, 'entry' | 'position'>

/** A claim and what becomes of it. */
export interface Outcome<C extends Claimant = LoggedClaim> {
  claim: C
  couponId: string | null
  claimSeq: number | null
  reason: ClaimRejection | null
}

/** Outcomes as Postgres takes them: columns that several statements share are written once. */
export interface Columns<C extends Claimant = LoggedClaim> {
  outcomes: readonly Outcome<C>[]
  userIds: string
  requestIds: string
  couponIds: string
  reasons: string
}

export function columnsOf<C extends Claimant>(outcomes: readonly Outcome<C>[]): Columns<C> {
  return {
    outcomes,
    userIds: arrayOf(outcomes.map(({ claim }) => claim.userId)),
    requestIds: arrayOf(outcomes.map(({ claim }) => claim.requestId)),
    couponIds: arrayOf(outcomes.map(({ couponId }) => couponId)),
    reasons: arrayOf(outcomes.map(({ reason }) => reason)),
  }
}

/** A Postgres array literal; null is NULL. Cheaper than the driver's own, which escapes every value twice. */
export function arrayOf(values: readonly (string | number | null)[]): string {
  let out = '{'
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!
    if (i > 0) out += ','
    if (value === null) out += 'NULL'
    else if (typeof value === 'number') out += value
    else out += `"${special.test(value) ? value.replace(escaped, '\\$&') : value}"`
  }
  return `${out}}`
}
const special = /["\\]/
const escaped = /["\\]/g

/** The claims of one entry were accepted in one millisecond. */
function acceptedAtOf(outcomes: readonly Outcome<RecordedClaim>[]): string[] {
  let lastMs = Number.NaN
  let last = ''
  return outcomes.map(({ claim: { acceptedAtMs } }) => {
    if (acceptedAtMs !== lastMs) last = new Date(acceptedAtMs).toISOString()
    lastMs = acceptedAtMs
    return last
  })
}

/**
 * Takes the campaign's stock row. Whoever holds it is alone with this campaign's decisions; the statements sent
 * after it see all that was committed before.
 */
export function lockStock(tx: Tx, campaignId: string) {
  return tx<{ quota: number; issued: number; per_user_limit: number; state: CampaignState }[]>`
    SELECT s.quota, s.issued, c.per_user_limit, c.state
    FROM campaign_stock s JOIN campaigns c USING (campaign_id)
    WHERE s.campaign_id = ${campaignId}
    FOR UPDATE OF s`
}

/** The look-up by request id that comes before anything is issued or rejected. */
export function findClaims(tx: Tx, claims: readonly LoggedClaim[]) {
  return tx<{ request_id: string; status: ClaimState; campaign_id: string }[]>`
    SELECT c.request_id, c.status, c.campaign_id
    FROM unnest(
      ${arrayOf(claims.map(({ userId }) => userId))}::text[],
      ${arrayOf(claims.map(({ requestId }) => requestId))}::uuid[]
    ) AS i(user_id, request_id)
    JOIN claims c ON c.user_id = i.user_id AND c.request_id = i.request_id`
}

export function findSequences(tx: Tx, campaignId: string, userIds: readonly string[]) {
  return tx<{ user_id: string; claim_seqs: number[] }[]>`
    SELECT k.user_id, array_agg(k.claim_seq) AS claim_seqs
    FROM unnest(${arrayOf(userIds)}::text[]) AS i(user_id)
    JOIN coupons k ON k.user_id = i.user_id AND k.campaign_id = ${campaignId}
    GROUP BY k.user_id`
}

export function insertClaims(
  tx: Tx,
  bucket: Bucket,
  ruleVersion: number,
  status: ClaimState,
  columns: Columns<RecordedClaim>,
  now: string,
) {
  const settledAt = status === 'PROCESSING' || status === 'REVIEW' ? null : now
  return tx`
    INSERT INTO claims (user_id, request_id, campaign_id, bucket, rule_version, status, reason, coupon_id,
      entry_ms, entry_seq, key_fingerprint, params_fingerprint, token_id, accepted_at, settled_at)
    SELECT user_id, request_id, ${bucket.campaignId}, ${bucket.bucket}::integer, ${ruleVersion}::bigint, ${status},
      reason, coupon_id, entry_ms, entry_seq, key_fingerprint, params_fingerprint, token_id, accepted_at,
      ${settledAt}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${columns.requestIds}::uuid[],
      ${columns.reasons}::text[],
      ${columns.couponIds}::uuid[],
      ${arrayOf(columns.outcomes.map(({ claim }) => claim.entryMs))}::bigint[],
      ${arrayOf(columns.outcomes.map(({ claim }) => claim.entrySeq))}::bigint[],
      ${arrayOf(columns.outcomes.map(({ claim }) => claim.keyFingerprint))}::text[],
      ${arrayOf(columns.outcomes.map(({ claim }) => claim.paramsFingerprint))}::text[],
      ${arrayOf(columns.outcomes.map(({ claim }) => claim.tokenId))}::text[],
      ${arrayOf(acceptedAtOf(columns.outcomes))}::timestamptz[]
    ) AS i(user_id, request_id, reason, coupon_id, entry_ms, entry_seq, key_fingerprint, params_fingerprint,
      token_id, accepted_at)`
}

export function insertCoupons(
  tx: Tx,
  campaignId: string,
  ruleVersion: number,
  validity: { from: string; to: string },
  columns: Columns<Claimant>,
  now: string,
) {
  const state: CouponState = 'AVAILABLE'
  return tx`
    INSERT INTO coupons (user_id, coupon_id, campaign_id, claim_seq, request_id, rule_version, valid_from,
      valid_to, state, issued_at, updated_at)
    SELECT user_id, coupon_id, ${campaignId}, claim_seq, request_id, ${ruleVersion}::bigint,
      ${validity.from}::timestamptz, ${validity.to}::timestamptz, ${state}, ${now}::timestamptz, ${now}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${columns.couponIds}::uuid[],
      ${arrayOf(columns.outcomes.map(({ claimSeq }) => claimSeq))}::integer[],
      ${columns.requestIds}::uuid[]
    ) AS i(user_id, coupon_id, claim_seq, request_id)`
}

/** Raises what was issued, if the quota allows it: the count of the answer is 1 or 0 (IS2, case-A2). */
export function raiseIssued(tx: Tx, campaignId: string, by: number) {
  return tx`
    UPDATE campaign_stock SET issued = issued + ${by}::bigint
    WHERE campaign_id = ${campaignId} AND issued + ${by}::bigint <= quota`
}

/** The ledger's word for each change: of a coupon that was issued, of a claim that was not. */
export function insertLedger(
  tx: Tx,
  campaignId: string,
  change: { kind: string; to: ClaimState | CouponState; actor?: string },
  columns: Columns<Claimant>,
  nowMs: number,
) {
  const { kind, to, actor = 'drain' } = change
  return tx`
    INSERT INTO ledger (user_id, ledger_id, campaign_id, request_id, coupon_id, kind, to_state, actor, reason, at)
    SELECT user_id, ledger_id, ${campaignId}, request_id, coupon_id, ${kind}, ${to}, ${actor}, reason,
      ${new Date(nowMs).toISOString()}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${arrayOf(columns.outcomes.map(() => uuid7(nowMs)))}::uuid[],
      ${columns.requestIds}::uuid[],
      ${columns.couponIds}::uuid[],
      ${columns.reasons}::text[]
    ) AS i(user_id, ledger_id, request_id, coupon_id, reason)`
}

/** `claim.delivered` for each. Its payload is built where its parts already are, not sent once more. */
export function tellDelivered(
  tx: Tx,
  campaignId: string,
  validity: { from: string; to: string },
  columns: Columns<Claimant>,
  now: string,
) {
  return tx`
    INSERT INTO outbox (user_id, request_id, type, payload, created_at)
    SELECT user_id, request_id, 'claim.delivered',
      jsonb_build_object('request_id', request_id, 'status', 'DELIVERED', 'coupon_id', coupon_id,
        'campaign_id', ${campaignId}::text, 'valid_from', ${validity.from}::text,
        'valid_until', ${validity.to}::text),
      ${now}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${columns.requestIds}::uuid[],
      ${columns.couponIds}::uuid[]
    ) AS i(user_id, request_id, coupon_id)`
}

/** `claim.rejected` for each. */
export function tellRejected(tx: Tx, columns: Columns<Claimant>, now: string) {
  return tx`
    INSERT INTO outbox (user_id, request_id, type, payload, created_at)
    SELECT user_id, request_id, 'claim.rejected',
      jsonb_build_object('request_id', request_id, 'status', 'REJECTED', 'reason', reason),
      ${now}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${columns.requestIds}::uuid[],
      ${columns.reasons}::text[]
    ) AS i(user_id, request_id, reason)`
}

/** The debt to return each rejected claim's stock, written with the rejection itself (IS6). */
export function oweCompensation(tx: Tx, bucket: Bucket, columns: Columns<Claimant>, now: string) {
  return tx`
    INSERT INTO compensations (user_id, request_id, campaign_id, bucket, state, reason, created_at, updated_at)
    SELECT user_id, request_id, ${bucket.campaignId}, ${bucket.bucket}::integer, 'PENDING', reason,
      ${now}::timestamptz, ${now}::timestamptz
    FROM unnest(
      ${columns.userIds}::text[],
      ${columns.requestIds}::uuid[],
      ${columns.reasons}::text[]
    ) AS i(user_id, request_id, reason)`
}
