import { inspect } from '../../lua/stock.ts'
import { mayBelongTo, timeOfRequestId } from '../../schema/acceptance.ts'
import { bucketOf } from '../../schema/hash.ts'
import { limits } from '../../schema/limits.ts'
import type { ClaimState } from '../../schema/states.ts'
import type { Client } from '../db.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { causeOf } from './failures.ts'
import type { Tx } from './issue.sql.ts'

/** What a client is told of its claim. Instants are RFC 3339. */
export interface ClaimView {
  request_id: string
  status: 'PROCESSING' | 'DELIVERED' | 'REJECTED' | 'REVIEW'
  campaign_id?: string
  coupon_id?: string
  valid_from?: string
  valid_until?: string
  reason?: string
  /** While it isn't final: when to ask again. */
  poll_after_ms?: number
}

export type StatusDeps = Pick<Deps, 'db' | 'runner' | 'log' | 'clock'>

export interface ClaimRow {
  request_id: string
  status: ClaimState
  campaign_id: string
  coupon_id: string | null
  reason: string | null
  valid_from: Date | null
  valid_to: Date | null
}

/** While nobody who could know answers, a claim this young is taken to be on its way: most are. */
const unknownMaxMs = limits.oldestUnsettledMaxMs
/** Campaigns whose gates are asked about an acceptance that the ledger doesn't have yet. */
const campaignsAskedMax = 32

/**
 * The present state of a user's claim, whether the ledger has it already or only Redis.
 * @throws Refused CLAIM_NOT_FOUND; UNAVAILABLE when nobody who could know it answers.
 */
export async function readClaim(deps: StatusDeps, userId: string, requestId: string): Promise<ClaimView> {
  const nowMs = deps.clock()
  if (!mayBelongTo(requestId, userId) || timeOfRequestId(requestId) > nowMs + limits.clockLeewayMs)
    throw new Refused('CLAIM_NOT_FOUND')
  const row = await findClaim(deps, userId, requestId)
  if (row !== undefined) return viewOf(row, nowMs)
  const held = await findAcceptance(deps, userId, requestId)
  if (held === undefined) throw new Refused('CLAIM_NOT_FOUND')
  // Settled between the two looks: the ledger has it by now.
  const settled = held === 'settled' ? await findClaim(deps, userId, requestId) : undefined
  if (settled !== undefined) return viewOf(settled, nowMs)
  return unsettledView(requestId, held === 'review' ? 'REVIEW' : 'PROCESSING', nowMs)
}

function findClaim({ db }: StatusDeps, userId: string, requestId: string): Promise<ClaimRow | undefined> {
  return selectClaim(db.query.sql, userId, requestId)
}

/** The claim as the ledger has it, read by this connection; undefined: it has none. */
export async function findClaimView(
  sql: Client | Tx,
  userId: string,
  requestId: string,
  nowMs: number,
): Promise<ClaimView | undefined> {
  const row = await selectClaim(sql, userId, requestId)
  return row === undefined ? undefined : viewOf(row, nowMs)
}

async function selectClaim(
  sql: Client | Tx,
  userId: string,
  requestId: string,
): Promise<ClaimRow | undefined> {
  const [row] = await sql<ClaimRow[]>`
    SELECT c.request_id, c.status, c.campaign_id, c.coupon_id, c.reason, k.valid_from, k.valid_to
    FROM claims c LEFT JOIN coupons k ON k.user_id = c.user_id AND k.coupon_id = c.coupon_id
    WHERE c.user_id = ${userId} AND c.request_id = ${requestId}`
  return row
}

/** The user's latest claims that the ledger knows, newest first. */
export async function latestClaims(
  { db, clock }: StatusDeps,
  userId: string,
  most: number,
): Promise<ClaimView[]> {
  // A request id is a UUIDv7: its order is that of acceptance, and the key's.
  const rows = await db.query.sql<ClaimRow[]>`
    SELECT c.request_id, c.status, c.campaign_id, c.coupon_id, c.reason, k.valid_from, k.valid_to
    FROM claims c LEFT JOIN coupons k ON k.user_id = c.user_id AND k.coupon_id = c.coupon_id
    WHERE c.user_id = ${userId} ORDER BY c.request_id DESC LIMIT ${most}`
  return rows.map((row) => viewOf(row, clock()))
}

function viewOf(row: ClaimRow, nowMs: number): ClaimView {
  const { request_id, campaign_id } = row
  if (row.status === 'DELIVERED')
    return {
      request_id,
      status: 'DELIVERED',
      campaign_id,
      coupon_id: row.coupon_id!,
      ...(row.valid_from === null ? {} : { valid_from: row.valid_from.toISOString() }),
      ...(row.valid_to === null ? {} : { valid_until: row.valid_to.toISOString() }),
    }
  if (row.status === 'REJECTED') return { request_id, status: 'REJECTED', campaign_id, reason: row.reason! }
  return unsettledView(request_id, row.status === 'REVIEW' ? 'REVIEW' : 'PROCESSING', nowMs, campaign_id)
}

/** Asking again pays less the longer it has taken; a review takes a person's time. */
function unsettledView(
  requestId: string,
  status: 'PROCESSING' | 'REVIEW',
  nowMs: number,
  campaignId?: string,
): ClaimView {
  const patience = status === 'REVIEW' ? limits.pollAfterMaxMs : (nowMs - timeOfRequestId(requestId)) / 2
  return {
    request_id: requestId,
    status,
    ...(campaignId === undefined ? {} : { campaign_id: campaignId }),
    poll_after_ms: Math.round(Math.min(limits.pollAfterMaxMs, Math.max(limits.pollAfterMs, patience))),
  }
}

/**
 * Looks for the acceptance in the gates of the campaigns that could have given it: it stands there from before the
 * client was told of it. Undefined: none has it, so there is none.
 * @throws Refused UNAVAILABLE when that can't be said and the claim is too old to be on its way.
 */
async function findAcceptance(
  deps: StatusDeps,
  userId: string,
  requestId: string,
): Promise<'open' | 'review' | 'settled' | undefined> {
  const acceptedAtMs = timeOfRequestId(requestId)
  const gates = await campaignsAt(deps, acceptedAtMs)
  try {
    if (gates.length > campaignsAskedMax) throw new Error('too many campaigns to ask')
    const answers = await Promise.all(
      gates.map(({ campaign_id, bucket_count }) => {
        const bucket = { campaignId: campaign_id, bucket: bucketOf(userId, campaign_id, bucket_count) }
        return inspect(deps.runner, bucket, userId)
      }),
    )
    const found = answers
      .flatMap((acceptances) => acceptances ?? [])
      .find((one) => one.requestId === requestId)
    if (found !== undefined) {
      if (found.state === 'A' || found.state === 'B') return 'open'
      return found.state === 'V' ? 'review' : 'settled'
    }
    // The gate of a campaign that is over may be cleared away, once all is settled; any other's must not be gone.
    if (gates.some(({ is_over }, i) => !is_over && answers[i] === undefined))
      throw new Error('a gate is gone')
    return undefined
  } catch (error) {
    if (deps.clock() - acceptedAtMs <= unknownMaxMs) return 'open'
    deps.log.warn({ cause: causeOf(error), request_id: requestId }, 'an unknown claim can’t be looked for')
    throw new Refused('UNAVAILABLE', { retry_after_ms: limits.retryAfterMs })
  }
}

/** Campaigns that gave out coupons at that instant: by their windows, the clocks' leeway included. */
async function campaignsAt({ db }: StatusDeps, atMs: number) {
  return db.query.sql<{ campaign_id: string; bucket_count: number; is_over: boolean }[]>`
    SELECT campaign_id, bucket_count, state IN ('ENDED', 'VOIDED') AS is_over FROM campaigns
    WHERE state IN ('ACTIVE', 'PAUSED', 'ENDED', 'VOIDED')
      AND starts_at <= ${new Date(atMs + limits.clockLeewayMs)}
      AND ends_at >= ${new Date(atMs - limits.clockLeewayMs)}
      AND EXISTS (SELECT 1 FROM buckets b WHERE b.campaign_id = campaigns.campaign_id AND b.primed_at IS NOT NULL)
    LIMIT ${campaignsAskedMax + 1}`
}
