import { Counter, Gauge } from 'prom-client'
import { causeOf } from '../claim/failures.ts'
import { isWorthTelling, makeAlarm, within } from '../claim/patience.ts'
import { openRuleBook } from '../claim/rules.ts'
import type { Deps, Running } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { type Decision, decide } from './decide.ts'
import { type DueReview, findDue } from './review.sql.ts'
import { tellDecided } from './tell.ts'

export type ReviewDeps = Pick<Deps, 'db' | 'runner' | 'log' | 'clock' | 'metrics'>

/** Decides on reviews whose time is over, and tells Redis what was decided. */
export interface ReviewKeeper extends Running {
  /** Something was decided. */
  wake(): void
}

const lookEveryMs = 1_000
const batchMax = 100
const stopMs = 5_000
const actor = 'review-timer'

/** @param onDecided told after the timer decided: events and debts are there. */
export function startReviewKeeper(deps: ReviewDeps, onDecided: () => void): ReviewKeeper {
  const log = deps.log.child({ part: 'reviews' })
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  const round = makeRound({ ...deps, log })
  openGauge(deps)

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        if ((await round()) > 0) onDecided()
        failed = 0
      } catch (error) {
        failed += 1
        if (isWorthTelling(failed))
          log.warn({ cause: causeOf(error), times: failed }, 'reviews can’t be looked after; trying again')
      }
      await alarm.wait(lookEveryMs)
    }
  }

  const running = run()
  return {
    wake: alarm.wake,
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the reviews’ keeper').catch((error) =>
        log.warn({ cause: causeOf(error) }, 'the reviews’ keeper did not end in order'),
      )
    },
  }
}

/** One round. The returned function resolves to how many claims the timer decided on. */
export function makeRound(deps: ReviewDeps): () => Promise<number> {
  const ruleBook = openRuleBook(deps.db.admin)
  const decided =
    (deps.metrics.getSingleMetric('tidegate_reviews_timed_out_total') as Counter<'status'> | undefined) ??
    new Counter({
      name: 'tidegate_reviews_timed_out_total',
      help: 'Held claims on which nobody decided in time, by what became of them.',
      labelNames: ['status'],
      registers: [deps.metrics],
    })

  async function decideDue({ request_id, verdict }: DueReview): Promise<Decision | undefined> {
    // What quota or limit forbid is rejected for that reason: nobody is there to be asked again.
    const by = verdict === 'issue' ? 'retry' : 'reject'
    try {
      return await deps.db.admin.transaction((tx) =>
        decide(tx, ruleBook, request_id, by, actor, deps.clock()),
      )
    } catch (error) {
      // A person was quicker.
      if (error instanceof Refused) return undefined
      throw error
    }
  }

  return async () => {
    const due = await deps.db.admin.transaction((tx) => findDue(tx, deps.clock(), batchMax))
    let count = 0
    for (const one of due) {
      const decision = await decideDue(one)
      if (decision === undefined) continue
      count += 1
      decided.inc({ status: decision.status })
    }
    await tellDecided(deps)
    return count
  }
}

/** Read when asked for: a queue that nobody works on must show. */
function openGauge({ db, metrics }: ReviewDeps): void {
  new Gauge({
    name: 'tidegate_reviews_open',
    help: 'Accepted claims that wait for a decision.',
    registers: [metrics],
    async collect() {
      const [row] = await db.admin.sql<{ n: number }[]>`
        SELECT count(*) AS n FROM reviews WHERE state = 'OPEN'`
      this.set(row?.n ?? 0)
    },
  })
}
