import type { Level, Logger } from 'pino'
import type { Bucket } from '../../lua/keys.ts'
import type { ScriptRunner } from '../../lua/runner.ts'
import { type Settlement, settle } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { type Group, part } from './batch.ts'
import { bury, type DeadLetter } from './deadLetters.ts'
import { causeOf, type Failure, failureOf } from './failures.ts'
import { type IssueContext, type IssueResult, issue } from './issue.ts'
import type { ClaimMetrics } from './metrics.ts'
import { backOff, isWorthTelling } from './patience.ts'
import { UnknownRules } from './rules.ts'

export interface DeliverContext extends IssueContext {
  runner: ScriptRunner
  log: Logger
  metrics: ClaimMetrics
  /** Aborted when the drain stops: what is unfinished stays in the log and is delivered again. */
  signal: AbortSignal
  /** Told of each transaction: whether Postgres could be reached. */
  noteDatabase(away: boolean): void
}

/** Claims marked by one call: a longer one would keep Redis from its arbiter for milliseconds. */
const settleClaimsMax = 1_024
/** A conflict that stays under the lock is no race: the rows themselves stand in the way. */
const conflictsMax = 5

/**
 * Takes a group from the log to its end: committed, set aside where it can't be, marked, acknowledged.
 * Returns when that is so; throws only after an abort. Crashing at any point is healed by doing it again.
 */
export async function deliver(
  ctx: DeliverContext,
  bucket: Bucket,
  group: Group,
  careful: boolean,
): Promise<IssueResult> {
  const sum: IssueResult = { settlements: [], issued: 0, rejected: 0, undecidable: [] }
  const dead: DeadLetter[] = [...group.unreadable]
  await issueOrSplit(ctx, bucket, group, careful, sum, dead)
  for (const { entry, position } of sum.undecidable)
    dead.push({ entry, position, cause: 'its request id belongs to another campaign’s claim' })
  await buryStubbornly(ctx, bucket, dead)
  await settleStubbornly(ctx, bucket, group, sum.settlements)
  note(ctx, group, sum)
  return sum
}

/** The claims can't be issued as a whole, for what is in them. */
class Unissuable extends Error {}

async function issueOrSplit(
  ctx: DeliverContext,
  bucket: Bucket,
  group: Group,
  careful: boolean,
  sum: IssueResult,
  dead: DeadLetter[],
): Promise<void> {
  const { claims } = group
  if (claims.length === 0) return
  try {
    const result = await issueStubbornly(ctx, bucket, group, careful)
    sum.settlements.push(...result.settlements)
    sum.undecidable.push(...result.undecidable)
    sum.issued += result.issued
    sum.rejected += result.rejected
  } catch (error) {
    if (!(error instanceof Unissuable)) throw error
    if (claims.length === 1 || error.cause instanceof UnknownRules) {
      for (const { entry, position, userId, requestId } of claims) {
        dead.push({ entry, position, cause: causeOf(error.cause) })
        sum.settlements.push({ userId, requestId, state: 'V' })
      }
      return
    }
    const middle = claims.length >> 1
    await issueOrSplit(ctx, bucket, part(group, claims.slice(0, middle)), true, sum, dead)
    await issueOrSplit(ctx, bucket, part(group, claims.slice(middle)), true, sum, dead)
  }
}

/** @throws Unissuable; or an abort. */
async function issueStubbornly(
  ctx: DeliverContext,
  bucket: Bucket,
  group: Group,
  careful: boolean,
): Promise<IssueResult> {
  let carefully = careful
  const failed = { conflict: 0, away: 0, setup: 0, fault: 0 }
  for (;;) {
    const started = performance.now()
    try {
      const result = await issue(ctx, bucket, group, carefully)
      ctx.noteDatabase(false)
      ctx.metrics.transactionSeconds.observe((performance.now() - started) / 1000)
      return result
    } catch (error) {
      ctx.signal.throwIfAborted()
      const failure = failureOf(error)
      ctx.metrics.failures.inc({ failure })
      ctx.noteDatabase(failure === 'away')
      // Whether it committed is unknown, or its rows are there: from now on each request is looked up first (IS5).
      carefully = true
      if (failure === 'data') throw new Unissuable('data', { cause: error })
      failed[failure] += 1
      if (failed.conflict > conflictsMax || failed.fault >= limits.deliveriesMax)
        throw new Unissuable(failure, { cause: error })
      logFailure(ctx, bucket, failure, failed[failure], error)
      if (failure !== 'conflict' || failed.conflict > 1) await backOff(failed[failure], ctx.signal)
    }
  }
}

const words = {
  conflict: { level: 'debug', text: 'issuing met rows of others; looking them up' },
  away: { level: 'warn', text: 'Postgres is away; the claims wait in the log' },
  setup: { level: 'error', text: 'Postgres refuses to issue; correct its set-up' },
  fault: { level: 'error', text: 'issuing failed by a fault of ours' },
} as const satisfies Record<Exclude<Failure, 'data'>, { level: Level; text: string }>

function logFailure(
  { log }: DeliverContext,
  { campaignId, bucket }: Bucket,
  failure: keyof typeof words,
  times: number,
  error: unknown,
): void {
  if (!isWorthTelling(times)) return
  const { level, text } = words[failure]
  // Only a fault of ours has a stack worth reading; Postgres' errors carry whole statements.
  const cause = failure === 'fault' ? { err: error } : { cause: causeOf(error) }
  log[level]({ campaign_id: campaignId, bucket, times, ...cause }, text)
}

async function buryStubbornly(ctx: DeliverContext, bucket: Bucket, dead: DeadLetter[]): Promise<void> {
  if (dead.length === 0) return
  for (const { entry, position, cause } of dead)
    ctx.log.error(
      { campaign_id: bucket.campaignId, bucket: bucket.bucket, entry_id: entry.id, position, cause },
      'a claim can’t be issued and goes to the dead letters',
    )
  await stubbornly(ctx, 'storing dead letters', () => bury(ctx.pool, bucket, dead, ctx.clock()))
  ctx.metrics.deadLetters.inc(dead.length)
}

/** All marks first and the acknowledgement with the last of them: a crash between repeats, and never skips, marks. */
async function settleStubbornly(
  ctx: DeliverContext,
  bucket: Bucket,
  group: Group,
  settlements: readonly Settlement[],
): Promise<void> {
  const started = performance.now()
  const ids = group.entries.map(({ id }) => id)
  let missing = 0
  for (let from = 0; from === 0 || from < settlements.length; from += settleClaimsMax) {
    const to = from + settleClaimsMax
    const marked = settlements.slice(from, to)
    const acknowledged = to >= settlements.length ? ids : []
    await stubbornly(ctx, 'settling', async () => {
      missing += (await settle(ctx.runner, bucket, acknowledged, marked)).missing
    })
  }
  ctx.metrics.settleSeconds.observe((performance.now() - started) / 1000)
  if (missing > 0)
    ctx.log.warn(
      { campaign_id: bucket.campaignId, bucket: bucket.bucket, missing },
      'Redis has no record of claims that the ledger holds',
    )
}

/** Repeats what is safe to repeat, until it is done. @throws on an abort. */
async function stubbornly(ctx: DeliverContext, what: string, work: () => Promise<unknown>): Promise<void> {
  for (let failed = 0; ; ) {
    try {
      await work()
      return
    } catch (error) {
      ctx.signal.throwIfAborted()
      failed += 1
      if (isWorthTelling(failed))
        ctx.log.warn({ cause: causeOf(error), times: failed }, `${what} failed and is tried again`)
      await backOff(failed, ctx.signal)
    }
  }
}

function note({ metrics, clock }: DeliverContext, group: Group, sum: IssueResult): void {
  metrics.issued.inc(sum.issued)
  metrics.rejected.inc(sum.rejected)
  metrics.settled.inc(group.entries.length)
  metrics.batchClaims.observe(group.claims.length)
  const now = clock()
  let last: unknown
  for (const { entry, acceptedAtMs } of group.claims) {
    if (entry !== last) metrics.deliverySeconds.observe(Math.max(0, now - acceptedAtMs) / 1000)
    last = entry
  }
}
