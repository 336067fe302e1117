import { drizzle, type PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import postgres, { type PostgresType, type Sql, type TransactionSql } from 'postgres'
import { guardTransactions } from './transaction.ts'

/**
 * Access to Postgres. One pool a purpose, so that none can starve another (SC8): reads for users (`query`),
 * the drain (`issuance`), claims in the database at once (`direct`), operators' commands and background rounds (`admin`).
 */

/** Counters stay far below 2^53 (schema/limits.ts), so bigint columns are numbers. */
type Types = { bigint: number }
export type Client = Sql<Types>

export interface Pool {
  /**
   * Tagged templates. bigint ⇄ number; timestamptz ⇄ Date (in arrays: pass ISO strings and cast);
   * jsonb: pass the JSON text with `::jsonb`, read a value. sum() of bigint is numeric: a string, unless cast.
   */
  readonly sql: Client
  /** The same connections, typed by schema/db/tables.ts. */
  readonly orm: PostgresJsDatabase
  /**
   * Runs `work` in one transaction on one connection. It commits when `work` resolves, and rolls back when it
   * rejects. When the backend dies in between, every further statement of `work` fails too: none ever runs on
   * another connection, outside the transaction (case-I4).
   */
  transaction<T>(work: (sql: TransactionSql<Types>) => Promise<T>): Promise<T>
}

export interface Database {
  readonly query: Pool
  readonly issuance: Pool
  readonly direct: Pool
  readonly admin: Pool
  close(): Promise<void>
}

export interface DatabaseOptions {
  url: string
  /** False behind a pooler in transaction mode, which loses prepared statements (case-I5). */
  prepare: boolean
}

interface PoolOptions {
  max: number
  statementTimeoutMs: number
}

const pools = {
  query: { max: 10, statementTimeoutMs: 2_000 },
  issuance: { max: 6, statementTimeoutMs: 10_000 },
  direct: { max: 6, statementTimeoutMs: 2_000 },
  admin: { max: 6, statementTimeoutMs: 10_000 },
} satisfies Record<string, PoolOptions>

const bigintAsNumber: PostgresType<number> = {
  to: 20,
  from: [20],
  serialize: (value: number) => String(value),
  parse: (text: string) => Number(text),
}

export function connectDatabase(options: DatabaseOptions): Database {
  const query = openPool(options, 'query', pools.query)
  const issuance = openPool(options, 'issuance', pools.issuance)
  const direct = openPool(options, 'direct', pools.direct)
  const admin = openPool(options, 'admin', pools.admin)
  return {
    query,
    issuance,
    direct,
    admin,
    async close() {
      await Promise.all([query, issuance, direct, admin].map((pool) => pool.sql.end({ timeout: 2 })))
    },
  }
}

function openPool({ url, prepare }: DatabaseOptions, purpose: string, options: PoolOptions): Pool {
  const sql = postgres(url, {
    max: options.max,
    prepare,
    connect_timeout: 5,
    // The driver's own pauses grow to 20 s, by which delivery would be late after Postgres is back.
    backoff: (attempt) => Math.min(0.05 * 2 ** attempt, 1),
    idle_timeout: 60,
    max_lifetime: 30 * 60,
    types: { bigint: bigintAsNumber },
    onnotice: () => undefined,
    connection: {
      application_name: `tidegate-${purpose}`,
      TimeZone: 'UTC',
      // A pooler in transaction mode refuses these: there they are set on the role or the database.
      ...(prepare ? timeouts(options.statementTimeoutMs) : {}),
    },
  })
  guardTransactions(sql)
  const { parsers, serializers } = sql.options
  const [parseInstant, serializeInstant] = [parsers[1184]!, serializers[1184]!]
  const orm = drizzle(sql)
  // Drizzle turns the client's own conversion of instants off and would leave `sql` with texts.
  parsers[1184] = parseInstant
  serializers[1184] = serializeInstant
  return {
    sql,
    orm,
    transaction: (work) => sql.begin(work) as ReturnType<typeof work>,
  }
}

/** Any transaction of `orm`, which has its statements for itself. */
type OrmTransaction = Parameters<Parameters<PostgresJsDatabase['transaction']>[0]>[0]

/**
 * The tagged templates of a transaction that drizzle began: the same connection, the same transaction. For a command
 * whose change is written by statements that also have other callers.
 */
export function statementsOf(tx: OrmTransaction): TransactionSql<Types> {
  return (tx as unknown as { session: { client: TransactionSql<Types> } }).session.client
}

function timeouts(statementTimeoutMs: number) {
  return {
    statement_timeout: statementTimeoutMs,
    // A client that died without closing must not hold its row locks for longer than a statement may.
    idle_in_transaction_session_timeout: statementTimeoutMs,
  }
}

/** SQLSTATEs that tell of the server's condition, not of the statement: it may succeed when sent again. */
const awayStates = /^(08|53|57P|57014|55P03|40001|40P01)/
const awayCodes = /^(CONNECT|ECONN|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)/

/**
 * Whether a statement failed because Postgres or the way to it is away or overloaded. What it was to change may
 * have happened or not. Looks through the errors that drizzle wraps.
 */
export function isDatabaseAway(error: unknown): boolean {
  for (let at = error; at instanceof Error; at = at.cause) {
    const { code } = at as { code?: unknown }
    if (typeof code === 'string' && (awayCodes.test(code) || awayStates.test(code))) return true
  }
  return false
}
