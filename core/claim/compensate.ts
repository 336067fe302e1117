import { compensate } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { type CompensationState, compensationMachine } from '../../schema/states.ts'
import type { Deps, Running } from '../deps.ts'
import { causeOf } from './failures.ts'
import { arrayOf } from './issue.sql.ts'
import { type ClaimMetrics, claimMetrics } from './metrics.ts'
import { isWorthTelling, makeAlarm, within } from './patience.ts'
import { uuid7 } from './uuid7.ts'

export type CompensateDeps = Pick<Deps, 'db' | 'runner' | 'log' | 'clock' | 'metrics'>

/** Returns the stock of rejected claims (IS6). */
export interface Compensator extends Running {
  /** There are new debts. */
  wake(): void
}

interface Debt {
  user_id: string
  request_id: string
  campaign_id: string
  bucket: number
  state: CompensationState
  attempts: number
  version: number
}

/** What Redis said, and what follows. */
type Answer = Awaited<ReturnType<typeof compensate>> | 'no_answer'

interface Step {
  debt: Debt
  answer: Answer
  to: CompensationState
}

const batchMax = 256
/** At once: they share a connection with everyone else. */
const atOnceMax = 32
const lookEveryMs = 1_000
const stopMs = 5_000

/**
 * Works off the compensations that the drain writes with each rejection. Redis returns a request's stock once,
 * whoever asks and how often, so a crash anywhere here only means asking again; every state change holds only if
 * the row is still as it was read.
 */
export function startCompensator(deps: CompensateDeps): Compensator {
  const log = deps.log.child({ part: 'compensator' })
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  const metrics = claimMetrics(deps.metrics)

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        const done = await compensateOnce({ ...deps, log }, metrics)
        failed = 0
        if (done === batchMax) continue
      } catch (error) {
        failed += 1
        if (isWorthTelling(failed))
          log.warn({ cause: causeOf(error), times: failed }, 'compensating failed and is tried again')
      }
      await alarm.wait(lookEveryMs)
    }
  }

  const running = run()
  return {
    wake: alarm.wake,
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the compensator').catch((error) =>
        log.warn({ cause: causeOf(error) }, 'the compensator did not end in order'),
      )
    },
  }
}

/** One bounded round. @returns how many debts it took up. */
export async function compensateOnce(deps: CompensateDeps, metrics: ClaimMetrics): Promise<number> {
  const debts = await dueDebts(deps)
  const steps: Step[] = []
  for (let at = 0; at < debts.length; at += atOnceMax)
    steps.push(...(await Promise.all(debts.slice(at, at + atOnceMax).map((debt) => ask(deps, debt)))))
  for (const { answer } of steps) metrics.compensations.inc({ outcome: answer })
  await record(deps, steps)
  await closeApplied(deps)
  return debts.length
}

/** Debts to work on: a failing one is left alone for longer each time, up to the longest poll. */
async function dueDebts({ db, clock }: CompensateDeps): Promise<Debt[]> {
  const now = new Date(clock()).toISOString()
  return db.admin.sql<Debt[]>`
    SELECT user_id, request_id, campaign_id, bucket, state, attempts, version FROM compensations
    WHERE state IN ('PENDING', 'UNKNOWN')
      AND updated_at <= ${now}::timestamptz
        - least(${limits.pollAfterMaxMs}, attempts * ${limits.retryAfterMs}) * interval '1 millisecond'
    ORDER BY updated_at LIMIT ${batchMax}`
}

async function ask({ runner, log }: CompensateDeps, debt: Debt): Promise<Step> {
  const bucket = { campaignId: debt.campaign_id, bucket: debt.bucket }
  let answer: Answer
  try {
    answer = await compensate(runner, bucket, debt.user_id, debt.request_id)
  } catch (error) {
    log.warn({ request_id: debt.request_id, cause: causeOf(error) }, 'a compensation got no answer')
    answer = 'no_answer'
  }
  const step = { debt, answer, to: stateAfter(answer) }
  if (step.to === 'REVIEW')
    log.error(
      { ...bucket, request_id: debt.request_id, answer },
      'a rejected claim’s record says otherwise: for review',
    )
  return step
}

function stateAfter(answer: Answer): CompensationState {
  switch (answer) {
    case 'returned':
    case 'already':
      return 'APPLIED'
    // Redis lost the record, and with it the acceptance: nothing is left to return; a rebuild counts from the ledger.
    case 'missing':
      return 'APPLIED'
    // The ledger rejected it, so Redis can't have seen it delivered, nor drawn from a ballot.
    case 'delivered':
    case 'entry':
      return 'REVIEW'
    // The gate is gone until its rebuild; whether the stock was returned will be seen then.
    case 'not_ready':
    case 'no_answer':
      return 'UNKNOWN'
  }
}

/** UNKNOWN and asked again is PENDING in between; the table knows no step from a state to itself. */
function isMove({ debt, to }: Step): boolean {
  if (debt.state === to) return false
  compensationMachine.move(debt.state, to)
  return true
}

async function record({ db, clock }: CompensateDeps, steps: readonly Step[]): Promise<void> {
  if (steps.length === 0) return
  const now = new Date(clock()).toISOString()
  const lost = (answer: Answer) => (answer === 'missing' ? 'redis_record_missing' : null)
  await db.admin.sql`
    UPDATE compensations c
    SET state = i.state, attempts = c.attempts + 1, version = c.version + 1, updated_at = ${now}::timestamptz,
        reason = concat_ws(', ', c.reason, i.note)
    FROM unnest(
      ${arrayOf(steps.map(({ debt }) => debt.user_id))}::text[],
      ${arrayOf(steps.map(({ debt }) => debt.request_id))}::uuid[],
      ${arrayOf(steps.map((step) => (isMove(step) ? step.to : step.debt.state)))}::text[],
      ${arrayOf(steps.map(({ debt }) => debt.version))}::bigint[],
      ${arrayOf(steps.map(({ answer }) => lost(answer)))}::text[]
    ) AS i(user_id, request_id, state, version, note)
    WHERE c.user_id = i.user_id AND c.request_id = i.request_id AND c.version = i.version`
}

/** APPLIED → CLOSED together with the ledger's word for it, in one statement: neither is without the other. */
async function closeApplied({ db, clock }: CompensateDeps): Promise<void> {
  const nowMs = clock()
  const now = new Date(nowMs).toISOString()
  const applied = await db.admin.sql<Pick<Debt, 'user_id' | 'request_id'>[]>`
    SELECT user_id, request_id FROM compensations WHERE state = 'APPLIED' LIMIT ${batchMax}`
  if (applied.length === 0) return
  await db.admin.sql`
    WITH closed AS (
      UPDATE compensations c
      SET state = 'CLOSED', version = c.version + 1, updated_at = ${now}::timestamptz
      FROM unnest(
        ${arrayOf(applied.map((row) => row.user_id))}::text[],
        ${arrayOf(applied.map((row) => row.request_id))}::uuid[],
        ${arrayOf(applied.map(() => uuid7(nowMs)))}::uuid[]
      ) AS i(user_id, request_id, ledger_id)
      WHERE c.user_id = i.user_id AND c.request_id = i.request_id AND c.state = 'APPLIED'
      RETURNING c.user_id, i.ledger_id, c.campaign_id, c.request_id, c.reason
    )
    INSERT INTO ledger (user_id, ledger_id, campaign_id, request_id, kind, from_state, to_state, actor, reason, at)
    SELECT user_id, ledger_id, campaign_id, request_id, 'compensation.closed', 'APPLIED', 'CLOSED', 'compensator', reason,
      ${now}::timestamptz
    FROM closed`
}
