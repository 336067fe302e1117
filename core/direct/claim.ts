import { randomBytes } from 'node:crypto'
import { packTime, requestIdOf, userTag } from '../../schema/acceptance.ts'
import type { Refusal } from '../../schema/decision.ts'
import { keyFingerprint, paramsFingerprint } from '../../schema/hash.ts'
import { alphabet, sixbitFromBytes } from '../../schema/sixbit.ts'
import type { CampaignState } from '../../schema/states.ts'
import type { ClaimToken } from '../../schema/tokens.ts'
import { failureOf } from '../claim/failures.ts'
import {
  columnsOf,
  insertClaims,
  insertCoupons,
  insertLedger,
  type RecordedClaim,
  type Tx,
  tellDelivered,
} from '../claim/issue.sql.ts'
import { type RuleBook, validityAt } from '../claim/rules.ts'
import { couponIdOf } from '../claim/uuid7.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'

/** Claims on small campaigns, decided and issued in the database at once (IS13): no gate, no log, no waiting. */

export type DirectDeps = Pick<Deps, 'db' | 'clock'>

export interface Issued {
  request_id: string
  coupon_id: string
  /** It was issued before, to the same key. */
  replayed: boolean
}

interface Standing {
  state: CampaignState
  starts_at: Date
  ends_at: Date
  per_user_limit: number
  rule_version: number
  unallocated: number
}

interface Earlier {
  request_id: string
  coupon_id: string | null
  claim_seq: number | null
  key_fingerprint: string
  params_fingerprint: string
  token_id: string
}

/** Two claims of one user meet in a unique key: the later looks again, and finds the earlier. */
const attemptsMax = 4
const actor = 'direct'

/**
 * The same precedence as the arbiter's (DESIGN §4), with the same refusals.
 * @param token genuine, with terms `direct`, of the user whom the edge vouches for.
 * @throws Refused with the decision's code
 */
export async function claimDirectly(
  deps: DirectDeps,
  ruleBook: RuleBook,
  token: ClaimToken,
  idempotencyKey: string,
): Promise<Issued> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await deps.db.direct.transaction((tx) => decide(tx, deps, ruleBook, token, idempotencyKey))
    } catch (error) {
      if (attempt === attemptsMax || failureOf(error) !== 'conflict') throw error
    }
  }
}

async function decide(
  tx: Tx,
  { clock }: DirectDeps,
  ruleBook: RuleBook,
  token: ClaimToken,
  idempotencyKey: string,
): Promise<Issued> {
  const { campaignId, userId } = token
  const [[standing], earlier] = await Promise.all([
    readStanding(tx, campaignId),
    readEarlier(tx, campaignId, userId),
  ])
  if (standing === undefined) throw new Refused('NOT_READY', { retry_after_ms: 1_000 })
  const key = keyFingerprint(idempotencyKey)
  const params = paramsFingerprint(token.deviceHash)
  const same = earlier.find(({ key_fingerprint }) => key_fingerprint === key)
  if (same !== undefined) {
    if (same.params_fingerprint !== params) throw new Refused('IDEMPOTENCY_MISMATCH')
    return { request_id: same.request_id, coupon_id: same.coupon_id!, replayed: true }
  }
  if (earlier.some(({ token_id }) => token_id === token.tokenId)) throw new Refused('TOKEN_USED')
  const nowMs = clock()
  refuseClosed(standing, nowMs)
  const claimSeq = nextFree(earlier, standing.per_user_limit)
  if (claimSeq === undefined) throw new Refused('LIMIT_REACHED')
  if (standing.unallocated === 0) throw new Refused('SOLD_OUT')
  const claim: RecordedClaim = {
    userId,
    requestId: newRequestId(userId, nowMs),
    acceptedAtMs: nowMs,
    keyFingerprint: key,
    paramsFingerprint: params,
    tokenId: token.tokenId,
    state: 'D',
    // It stands in no log.
    entryMs: nowMs,
    entrySeq: -1,
  }
  return write(tx, ruleBook, campaignId, standing.rule_version, claim, claimSeq, nowMs)
}

function readStanding(tx: Tx, campaignId: string) {
  return tx<Standing[]>`
    SELECT c.state, c.starts_at, c.ends_at, c.per_user_limit, c.rule_version, s.unallocated
    FROM campaigns c JOIN campaign_stock s USING (campaign_id)
    WHERE c.campaign_id = ${campaignId} AND c.delivery = 'direct'`
}

function readEarlier(tx: Tx, campaignId: string, userId: string) {
  return tx<Earlier[]>`
    SELECT c.request_id, c.coupon_id, k.claim_seq, c.key_fingerprint, c.params_fingerprint, c.token_id
    FROM coupons k JOIN claims c ON c.user_id = k.user_id AND c.request_id = k.request_id
    WHERE k.user_id = ${userId} AND k.campaign_id = ${campaignId}`
}

function refuseClosed({ state, starts_at, ends_at }: Standing, nowMs: number): void {
  const closed = closedFor(state)
  if (closed !== undefined)
    throw new Refused(closed, closed === 'PAUSED' ? { retry_after_ms: 1_000 } : undefined)
  if (nowMs < starts_at.getTime())
    throw new Refused('NOT_STARTED', {
      starts_at: starts_at.toISOString(),
      server_time: new Date(nowMs).toISOString(),
    })
  if (nowMs >= ends_at.getTime()) throw new Refused('ENDED')
}

function closedFor(state: CampaignState): Refusal | undefined {
  if (state === 'ACTIVE') return undefined
  if (state === 'VOIDED' || state === 'ENDED' || state === 'PAUSED') return state
  return 'NOT_READY'
}

function nextFree(earlier: readonly Earlier[], limit: number): number | undefined {
  const taken = new Set(earlier.map(({ claim_seq }) => claim_seq))
  for (let sequence = 1; sequence <= limit; sequence++) if (!taken.has(sequence)) return sequence
  return undefined
}

/** All of it in the claim's transaction; the stock row last, so that others wait for it only during our commit. */
async function write(
  tx: Tx,
  ruleBook: RuleBook,
  campaignId: string,
  ruleVersion: number,
  claim: RecordedClaim,
  claimSeq: number,
  nowMs: number,
): Promise<Issued> {
  const validity = validityAt((await ruleBook(campaignId, ruleVersion, tx)).validity, nowMs)
  const couponId = couponIdOf(claim.requestId)
  const rows = columnsOf([{ claim, couponId, claimSeq, reason: null }])
  const now = new Date(nowMs).toISOString()
  const [, , , , stock] = await Promise.all([
    insertClaims(tx, { campaignId, bucket: 0 }, ruleVersion, 'DELIVERED', rows, now),
    insertCoupons(tx, campaignId, ruleVersion, validity, rows, now),
    insertLedger(tx, campaignId, { kind: 'coupon.issued', to: 'AVAILABLE', actor }, rows, nowMs),
    tellDelivered(tx, campaignId, validity, rows, now),
    tx`
      UPDATE campaign_stock SET issued = issued + 1, unallocated = unallocated - 1
      WHERE campaign_id = ${campaignId} AND issued < quota AND unallocated > 0`,
  ])
  if (stock.count !== 1) throw new Refused('SOLD_OUT')
  return { request_id: claim.requestId, coupon_id: couponId, replayed: false }
}

/** As the arbiter and the edge make them together: time, randomness, the user's tag. */
function newRequestId(userId: string, nowMs: number): string {
  const random = alphabet[randomBytes(1)[0]! & 3]! + sixbitFromBytes(randomBytes(9), 0, 9)
  return requestIdOf(packTime(nowMs) + random + userTag(userId))
}
