import { isDatabaseAway } from '../db.ts'
import { UnknownRules } from './rules.ts'

/**
 * What a failed issuing transaction means for its claims:
 *   away      Postgres or the way to it; the transaction may have committed (IS5)
 *   conflict  a row of another transaction stands in the way: look again under the lock
 *   data      Postgres will never take these rows as they are (IS7)
 *   setup     Postgres refuses for a reason that has nothing to do with the rows, as a missing right
 *   fault     a fault of ours, perhaps met by one claim only
 */
export type Failure = 'away' | 'conflict' | 'data' | 'setup' | 'fault'

const conflictStates = /^(23505|40)/
const dataStates = /^(21|22|23|54)/

export function failureOf(error: unknown): Failure {
  if (error instanceof UnknownRules) return 'data'
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
  const state = typeof code === 'string' ? code : ''
  if (conflictStates.test(state)) return 'conflict'
  if (isDatabaseAway(error)) return 'away'
  if (name !== 'PostgresError') return 'fault'
  return dataStates.test(state) ? 'data' : 'setup'
}

/** For a dead letter: what Postgres or we said, without the values it was about. */
export function causeOf(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string }
  return [code, message ?? String(error)]
    .filter((text) => text !== undefined)
    .join(': ')
    .slice(0, 500)
}
