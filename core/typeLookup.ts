import type { Logger } from 'pino'
import type { Database } from './db.ts'

/**
 * postgres.js asks on each new connection which types are arrays, and waits for the answer nowhere: when the connection
 * breaks meanwhile and can't be made again, the question's rejection is nobody's and ends the process (once in some
 * fifty kills of a Postgres under load; `core/typeLookup.test.ts` does it at will). The next connection asks again, so it is only told. Any other
 * rejection that nobody handles ends the process as ever; so does this one in a pool that has never had an answer, which
 * could not send arrays.
 */
export function survivedTypeLookup(error: unknown, db: Database, log: Logger): boolean {
  if (!isTypeLookup(error)) return false
  const pools = [db.query, db.issuance, db.direct, db.admin]
  if (!pools.every(({ sql }) => sql.options.serializers[textArrayOid] !== undefined)) return false
  log.warn({ err: error }, 'a connection to Postgres broke while it was made')
  return true
}

const textArrayOid = 1009

function isTypeLookup(error: unknown): boolean {
  return error instanceof Error && /^\s*select b\.oid, b\.typarray\s/.test(String(queryOf(error)))
}

/** The driver adds it to the errors of its statements. */
function queryOf(error: Error): unknown {
  return (error as Error & { query?: unknown }).query
}
