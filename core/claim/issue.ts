import type { Bucket } from '../../lua/keys.ts'
import type { Settlement } from '../../lua/stock.ts'
import { assertNever } from '../../schema/assert.ts'
import { insertRequestLog } from '../archive/log.sql.ts'
import type { Pool } from '../db.ts'
import { insertReviews } from '../review/review.sql.ts'
import type { Group, LoggedClaim } from './batch.ts'
import { classify, type Ruling, type Standing } from './classify.ts'
import {
  columnsOf,
  findClaims,
  findSequences,
  insertClaims,
  insertCoupons,
  insertLedger,
  lockStock,
  type Outcome,
  oweCompensation,
  raiseIssued,
  type Tx,
  tellDelivered,
  tellRejected,
} from './issue.sql.ts'
import { type IssueRules, type RuleBook, UnknownRules, validityAt } from './rules.ts'
import { couponIdOf } from './uuid7.ts'

export interface IssueContext {
  /** The connections of the drain. */
  pool: Pick<Pool, 'transaction'>
  ruleBook: RuleBook
  clock(): number
}

export interface IssueResult {
  /** What to mark in the users' records. A ballot's entries stay as they are until the draw. */
  settlements: Settlement[]
  /** Coupons that this call issued, and claims that it rejected: a redelivery counts nothing. */
  issued: number
  rejected: number
  /** Claims whose request id is another campaign's. */
  undecidable: LoggedClaim[]
}

/** The quota or a row in the way: the straight path wrote nothing. */
class NotStraight extends Error {
  readonly code = '23505'
}

/**
 * Turns a group of claims of one bucket into facts, in one transaction (IS1): claims, coupons, ledger, outbox, and
 * compensations for what is rejected. Repeating it gives the same outcome and changes nothing.
 *
 * Straight: nothing is looked up; that every claim is new and the quota is enough is left to the unique keys and
 * the stock's condition, and where they object, nothing is written. Careful: under the campaign's lock, each
 * claim is looked up and ruled on first. Both end in the same rows.
 * @throws what Postgres throws, UnknownRules; see failures.ts for what it means.
 */
export async function issue(
  ctx: IssueContext,
  bucket: Bucket,
  group: Group,
  careful: boolean,
): Promise<IssueResult> {
  if (group.claims.length === 0) return { settlements: [], issued: 0, rejected: 0, undecidable: [] }
  if (group.kind === 'ballot') return recordEntries(ctx, bucket, group)
  const rules = await ctx.ruleBook(bucket.campaignId, group.ruleVersion)
  const held = group.claims.some(({ state }) => state === 'V')
  const straight = !careful && !held && rules.singlePerUser && rules.inFlight === 'continue'
  return ctx.pool.transaction((tx) =>
    straight
      ? issueStraight(tx, ctx.clock(), bucket, group, rules)
      : issueCarefully(tx, ctx.clock(), bucket, group, rules),
  )
}

async function issueStraight(
  tx: Tx,
  nowMs: number,
  bucket: Bucket,
  group: Group,
  rules: IssueRules,
): Promise<IssueResult> {
  const issued = group.claims.map((claim) => toIssue(claim, 1))
  await Promise.all([
    insertRequestLog(tx, bucket, group.claims),
    writeIssued(tx, nowMs, bucket, group.ruleVersion, rules, issued),
  ])
  return {
    settlements: group.claims.map((claim) => settlement(claim, 'D')),
    issued: issued.length,
    rejected: 0,
    undecidable: [],
  }
}

async function issueCarefully(
  tx: Tx,
  nowMs: number,
  bucket: Bucket,
  group: Group,
  rules: IssueRules,
): Promise<IssueResult> {
  const { claims, ruleVersion } = group
  const standing = await readStanding(tx, bucket, claims, rules)
  if (standing === undefined) throw new UnknownRules(bucket.campaignId, ruleVersion)
  const rulings = classify(claims, bucket.campaignId, standing)
  const issued: Outcome[] = []
  const rejected: Outcome[] = []
  const held: Outcome[] = []
  const undecidable: LoggedClaim[] = []
  const settlements = rulings.map((ruling, i) => {
    const claim = claims[i]!
    if (ruling.kind === 'issue') issued.push(toIssue(claim, ruling.claimSeq))
    else if (ruling.kind === 'reject')
      rejected.push({ claim, couponId: null, claimSeq: null, reason: ruling.reason })
    else if (ruling.kind === 'hold') held.push({ claim, couponId: null, claimSeq: null, reason: null })
    else if (ruling.kind === 'undecidable') undecidable.push(claim)
    return settlement(claim, letterOf(ruling))
  })
  const decided = claims.filter((_, i) => rulings[i]!.kind !== 'known' && rulings[i]!.kind !== 'undecidable')
  if (decided.length > 0) await insertRequestLog(tx, bucket, decided)
  await Promise.all([
    writeRejected(tx, nowMs, bucket, ruleVersion, rejected),
    writeHeld(tx, nowMs, bucket, ruleVersion, rules, held),
    writeIssued(tx, nowMs, bucket, ruleVersion, rules, issued),
  ])
  return { settlements, issued: issued.length, rejected: rejected.length, undecidable }
}

/** Undefined: the ledger has no such campaign. */
async function readStanding(
  tx: Tx,
  bucket: Bucket,
  claims: readonly LoggedClaim[],
  rules: IssueRules,
): Promise<Standing | undefined> {
  const users = [...new Set(claims.map(({ userId }) => userId))]
  // Sent together, run in order: the last two see what the lock's former holder committed.
  const [[stock], known, sequences] = await Promise.all([
    lockStock(tx, bucket.campaignId),
    findClaims(tx, claims),
    findSequences(tx, bucket.campaignId, users),
  ])
  if (stock === undefined) return undefined
  return {
    capacity: stock.quota - stock.issued,
    perUserLimit: stock.per_user_limit,
    cancelled: rules.inFlight === 'cancel' && (stock.state === 'PAUSED' || stock.state === 'VOIDED'),
    known: new Map(known.map((row) => [row.request_id, { status: row.status, campaignId: row.campaign_id }])),
    taken: new Map(sequences.map((row) => [row.user_id, row.claim_seqs])),
  }
}

async function writeIssued(
  tx: Tx,
  nowMs: number,
  bucket: Bucket,
  ruleVersion: number,
  rules: IssueRules,
  issued: readonly Outcome[],
): Promise<void> {
  if (issued.length === 0) return
  const rows = columnsOf(issued)
  const now = new Date(nowMs).toISOString()
  const { campaignId } = bucket
  const validity = validityAt(rules.validity, nowMs)
  const written = await Promise.all([
    insertClaims(tx, bucket, ruleVersion, 'DELIVERED', rows, now),
    insertCoupons(tx, campaignId, ruleVersion, validity, rows, now),
    insertLedger(tx, campaignId, { kind: 'coupon.issued', to: 'AVAILABLE' }, rows, nowMs),
    tellDelivered(tx, campaignId, validity, rows, now),
    // Last, so that other batches of the campaign wait for this row only during our commit.
    raiseIssued(tx, campaignId, issued.length),
  ])
  if (written[4].count !== 1) throw new NotStraight('the quota does not allow all of them')
}

async function writeRejected(
  tx: Tx,
  nowMs: number,
  bucket: Bucket,
  ruleVersion: number,
  rejected: readonly Outcome[],
): Promise<void> {
  if (rejected.length === 0) return
  const rows = columnsOf(rejected)
  const now = new Date(nowMs).toISOString()
  await Promise.all([
    insertClaims(tx, bucket, ruleVersion, 'REJECTED', rows, now),
    insertLedger(tx, bucket.campaignId, { kind: 'claim.rejected', to: 'REJECTED' }, rows, nowMs),
    tellRejected(tx, rows, now),
    oweCompensation(tx, bucket, rows, now),
  ])
}

/** Nobody is told and nothing is owed yet: an operator or a timer decides (CL5). */
async function writeHeld(
  tx: Tx,
  nowMs: number,
  bucket: Bucket,
  ruleVersion: number,
  rules: IssueRules,
  held: readonly Outcome[],
): Promise<void> {
  if (held.length === 0) return
  const rows = columnsOf(held)
  await Promise.all([
    insertClaims(tx, bucket, ruleVersion, 'REVIEW', rows, new Date(nowMs).toISOString()),
    insertReviews(tx, bucket, rules.review, rows, nowMs),
    insertLedger(tx, bucket.campaignId, { kind: 'claim.held', to: 'REVIEW' }, rows, nowMs),
  ])
}

/** A ballot's entries are only recorded: the draw decides. */
async function recordEntries(ctx: IssueContext, bucket: Bucket, group: Group): Promise<IssueResult> {
  const { claims, ruleVersion } = group
  await ctx.pool.transaction(async (tx) => {
    const known = new Set((await findClaims(tx, claims)).map((row) => row.request_id))
    const entered = claims.filter(({ requestId }) => !known.has(requestId))
    if (entered.length === 0) return
    const rows = columnsOf(entered.map((claim) => ({ claim, couponId: null, claimSeq: null, reason: null })))
    const nowMs = ctx.clock()
    await Promise.all([
      insertRequestLog(tx, bucket, entered),
      insertClaims(tx, bucket, ruleVersion, 'PROCESSING', rows, new Date(nowMs).toISOString()),
      insertLedger(tx, bucket.campaignId, { kind: 'claim.entered', to: 'PROCESSING' }, rows, nowMs),
    ])
  })
  return { settlements: [], issued: 0, rejected: 0, undecidable: [] }
}

function toIssue(claim: LoggedClaim, claimSeq: number): Outcome {
  return { claim, couponId: couponIdOf(claim.requestId), claimSeq, reason: null }
}

function settlement({ userId, requestId }: LoggedClaim, state: Settlement['state']): Settlement {
  return { userId, requestId, state }
}

function letterOf(ruling: Ruling): Settlement['state'] {
  switch (ruling.kind) {
    case 'issue':
      return 'D'
    case 'reject':
      return 'X'
    case 'hold':
    case 'undecidable':
      return 'V'
    case 'known':
      if (ruling.status === 'DELIVERED') return 'D'
      return ruling.status === 'REJECTED' ? 'X' : 'V'
    default:
      return assertNever(ruling, 'ruling')
  }
}
