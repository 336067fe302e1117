import { causeOf } from '../claim/failures.ts'
import { makeAlarm, within } from '../claim/patience.ts'
import type { Deps, Running } from '../deps.ts'

/** Makes the days' tables of the request log before they begin. */

const lookEveryMs = 3_600_000
const daysAhead = 2
const dayMs = 86_400_000
const stopMs = 2_000

export type DaysDeps = Pick<Deps, 'db' | 'log' | 'clock'>

export function startDays(deps: DaysDeps): Running {
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  async function run(): Promise<void> {
    while (!abort.signal.aborted) {
      await makeDays(deps).catch((error: unknown) =>
        deps.log.warn({ cause: causeOf(error) }, 'the request log’s days could not be made; trying again'),
      )
      await alarm.wait(lookEveryMs)
    }
  }
  const running = run()
  return {
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the request log’s days').catch((error) =>
        deps.log.warn({ cause: causeOf(error) }, 'the request log’s days did not end in order'),
      )
    },
  }
}

/**
 * Today's table and those of the next days (UTC). A day of which rows stand in the last table already stays there:
 * it is read and exported all the same.
 */
export async function makeDays({ db, clock, log }: DaysDeps): Promise<void> {
  for (let ahead = 0; ahead <= daysAhead; ahead++) {
    const day = new Date(clock() + ahead * dayMs).toISOString().slice(0, 10)
    const next = new Date(Date.parse(day) + dayMs).toISOString().slice(0, 10)
    const name = `request_log_${day.replaceAll('-', '')}`
    try {
      // Neither names nor bounds of partitions can be parameters; both are dates that we made.
      await db.admin.sql.unsafe(
        `CREATE TABLE IF NOT EXISTS ${name} PARTITION OF request_log
           FOR VALUES FROM ('${day} 00:00+00') TO ('${next} 00:00+00')`,
      )
    } catch (error) {
      const { code } = error as { code?: string }
      const takenByLast = code === '23514'
      const madeMeanwhile = code === '42P07' || code === '42P17' || code === '23505'
      if (!takenByLast && !madeMeanwhile) throw error
      if (takenByLast) log.info({ day }, 'this day’s requests stand in the request log’s last table')
    }
  }
}
