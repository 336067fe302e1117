import type { CampaignState } from '../../schema/states.ts'
import { arrayOf, type Claimant, type Outcome, type Tx } from '../claim/issue.sql.ts'

/** The statements that carry out a draw. Each is about the claims of one batch, by unnest, as in claim/issue.sql.ts. */

export interface OpenLot {
  user_id: string
  request_id: string
  bucket: number
  rule_version: number
  won: boolean
}

/** What another process is at is left to it. */
export function lockLots(tx: Tx, campaignId: string, state: 'DRAWN' | 'DECIDED', most: number) {
  return tx<OpenLot[]>`
    SELECT user_id, request_id, bucket, rule_version, won FROM ballot_lots
    WHERE campaign_id = ${campaignId} AND state = ${state}
    ORDER BY rank LIMIT ${most} FOR UPDATE SKIP LOCKED`
}

export function moveLots(
  tx: Tx,
  campaignId: string,
  lots: readonly OpenLot[],
  from: 'DRAWN' | 'DECIDED',
  to: 'DECIDED' | 'MARKED',
) {
  return tx`
    UPDATE ballot_lots l SET state = ${to}
    FROM unnest(${arrayOf(lots.map((lot) => lot.user_id))}::text[]) AS i(user_id)
    WHERE l.user_id = i.user_id AND l.campaign_id = ${campaignId} AND l.state = ${from}`
}

export async function campaignStateOf(tx: Tx, campaignId: string): Promise<CampaignState> {
  const [row] = await tx<{ state: CampaignState }[]>`
    SELECT state FROM campaigns WHERE campaign_id = ${campaignId}`
  return row!.state
}

/** PROCESSING → DELIVERED. @returns the request ids that it held for. */
export function deliverClaims(tx: Tx, rows: readonly Outcome<Claimant>[], now: string) {
  return tx<{ request_id: string }[]>`
    UPDATE claims c
    SET status = 'DELIVERED', coupon_id = i.coupon_id, settled_at = ${now}::timestamptz, version = c.version + 1
    FROM unnest(
      ${arrayOf(rows.map(({ claim }) => claim.userId))}::text[],
      ${arrayOf(rows.map(({ claim }) => claim.requestId))}::uuid[],
      ${arrayOf(rows.map(({ couponId }) => couponId))}::uuid[]
    ) AS i(user_id, request_id, coupon_id)
    WHERE c.user_id = i.user_id AND c.request_id = i.request_id AND c.status = 'PROCESSING'
    RETURNING c.request_id`
}

/** PROCESSING → REJECTED. @returns the request ids that it held for. */
export function rejectClaims(tx: Tx, rows: readonly Outcome<Claimant>[], now: string) {
  return tx<{ request_id: string }[]>`
    UPDATE claims c
    SET status = 'REJECTED', reason = i.reason, settled_at = ${now}::timestamptz, version = c.version + 1
    FROM unnest(
      ${arrayOf(rows.map(({ claim }) => claim.userId))}::text[],
      ${arrayOf(rows.map(({ claim }) => claim.requestId))}::uuid[],
      ${arrayOf(rows.map(({ reason }) => reason))}::text[]
    ) AS i(user_id, request_id, reason)
    WHERE c.user_id = i.user_id AND c.request_id = i.request_id AND c.status = 'PROCESSING'
    RETURNING c.request_id`
}

/** The winners' stock, if both the quota and the unallocated stock allow it: the count of the answer is 1 or 0. */
export function takeStock(tx: Tx, campaignId: string, by: number) {
  return tx`
    UPDATE campaign_stock SET issued = issued + ${by}::bigint, unallocated = unallocated - ${by}::bigint
    WHERE campaign_id = ${campaignId} AND issued + ${by}::bigint <= quota AND unallocated >= ${by}::bigint`
}

/** Entries that have no lot: of a cancelled ballot, or a user's second after a loss of Redis. */
export function lockEntries(tx: Tx, campaignId: string, most: number) {
  return tx<{ user_id: string; request_id: string; bucket: number }[]>`
    SELECT user_id, request_id, bucket FROM claims c
    WHERE campaign_id = ${campaignId} AND status = 'PROCESSING'
      AND NOT EXISTS (
        SELECT 1 FROM ballot_lots l
        WHERE l.user_id = c.user_id AND l.campaign_id = c.campaign_id AND l.request_id = c.request_id)
    LIMIT ${most} FOR UPDATE SKIP LOCKED`
}
