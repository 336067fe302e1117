import type { Sql, TransactionSql } from 'postgres'

/**
 * postgres.js reconnects a connection that broke inside `begin`, and lets the rest of the transaction's statements
 * run on it: each then commits by itself, or the write to a missing socket ends the process. Here a transaction
 * whose connection broke is dead as a whole: no further statement is sent, not even its rollback (case-I4).
 */

/** What a statement of postgres.js 3.4 has besides being a promise: who sends it, one turn after it was made. */
interface Statement extends Promise<unknown> {
  handler(statement: Statement): void
  reject(error: unknown): void
}

interface Fate {
  dead: unknown
}

/** Makes every `begin` of this client, also drizzle's, fail wholly when its connection breaks. */
export function guardTransactions(client: Sql<{ bigint: number }>): void {
  const begin = client.begin as (options: string, work: (tx: TransactionSql) => unknown) => Promise<unknown>
  const guarded = async (...given: [string, Work] | [Work]): Promise<unknown> => {
    const [options, work] = given.length === 2 ? given : ['', given[0]]
    const fate: Fate = { dead: undefined }
    try {
      return await begin(options, (tx) => settleUnlessDead(work(guardStatements(tx, fate)), fate))
    } catch (error) {
      fate.dead ??= error
      throw fate.dead
    }
  }
  client.begin = guarded as typeof client.begin
}

type Work = (tx: TransactionSql) => Promise<unknown>

/** The driver answers a settled `work` by COMMIT or ROLLBACK, and a broken connection by rejecting on its own. */
async function settleUnlessDead(work: Promise<unknown>, fate: Fate): Promise<unknown> {
  const never = () => new Promise(() => undefined)
  return work.then(
    (value) => (fate.dead === undefined ? value : never()),
    (error) => {
      if (fate.dead === undefined) throw error
      return never()
    },
  )
}

function guardStatements(tx: TransactionSql, fate: Fate): TransactionSql {
  const guard = (made: unknown): unknown => {
    if (!(made instanceof Promise)) return made
    const statement = made as Statement
    const send = statement.handler
    statement.handler = Object.assign((sent: Statement) => {
      if (fate.dead !== undefined) return sent.reject(fate.dead)
      sent.catch((error) => {
        if (breaksConnection(error)) fate.dead ??= error
      })
      send(sent)
    }, send)
    return statement
  }
  return new Proxy(tx, {
    apply: (target, self, args) => guard(Reflect.apply(target, self, args)),
    get(target, name, receiver) {
      const value = Reflect.get(target, name, receiver)
      if (name === 'unsafe' || name === 'file')
        return (...args: unknown[]) => guard(Reflect.apply(value, target, args))
      if (name === 'savepoint')
        return (...args: unknown[]) => {
          const work = args.pop() as Work
          return Reflect.apply(value, target, [
            ...args,
            (inner: TransactionSql) => work(guardStatements(inner, fate)),
          ])
        }
      return value
    },
  })
}

/** An answer of the server leaves the connection usable, unless it says that it ends it. */
function breaksConnection(error: unknown): boolean {
  const { name, severity_local, severity } = error as {
    name?: string
    severity_local?: string
    severity?: string
  }
  if (name !== 'PostgresError') return true
  return severity === 'FATAL' || severity === 'PANIC' || severity_local === 'FATAL'
}
