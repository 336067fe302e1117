import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import postgres, { type Sql } from 'postgres'

/**
 * Applies the plain SQL files of `migrations/`, in the order of their numbers, each once and in a transaction of
 * its own. Append-only: what was applied is remembered with its checksum, and an edited file is an error.
 *
 * The advisory lock belongs to the transaction and not to the session, so it also holds behind a pooler. Processes
 * that start together therefore take turns file by file, and each finds what the others did (case-I11).
 */

export interface Migration {
  /** File name without `.sql`: a four-digit number, counting from 0001 without gaps, and words. */
  name: string
  sql: string
}

export class MigrationError extends Error {
  readonly migration: string
  constructor(migration: string, what: string, cause?: unknown) {
    super(`migration ${migration}: ${what}`, { cause })
    this.name = 'MigrationError'
    this.migration = migration
  }
}

/** Any fixed number; nothing else of this product takes advisory locks of one key. */
const lockKey = 7_433_602_115n
const lockWaitMs = 60_000
/** A statement that waits longer for a table would make everyone else queue behind it. */
const tableWaitMs = 5_000

const folder = fileURLToPath(new URL('./migrations/', import.meta.url))

export function readMigrations(from: string = folder): Migration[] {
  return readdirSync(from)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({ name: file.slice(0, -4), sql: readFileSync(`${from}/${file}`, 'utf8') }))
}

/**
 * Brings the database at `url` up to date and says what this call applied, in order. Migrations in the database
 * that this version does not know are left alone: they are of a newer version that runs beside this one.
 * @throws MigrationError when a file was edited after it was applied, is misnumbered, or fails; it then left nothing.
 */
export async function migrate(url: string, migrations: Migration[] = readMigrations()): Promise<string[]> {
  checkNumbers(migrations)
  const sql = postgres(url, { max: 1, connect_timeout: 10, onnotice: () => undefined, prepare: false })
  try {
    const applied: string[] = []
    for (const migration of migrations) if (await apply(sql, migration)) applied.push(migration.name)
    return applied
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function checkNumbers(migrations: readonly Migration[]): void {
  migrations.forEach(({ name }, index) => {
    const expected = String(index + 1).padStart(4, '0')
    if (!name.startsWith(`${expected}_`)) throw new MigrationError(name, `its number must be ${expected}`)
  })
}

async function apply(sql: Sql, migration: Migration): Promise<boolean> {
  const checksum = createHash('sha256').update(migration.sql).digest('hex')
  return sql.begin(async (tx) => {
    await tx`SELECT set_config('lock_timeout', ${String(lockWaitMs)}, true)`
    await tx`SELECT pg_advisory_xact_lock(${String(lockKey)}::bigint)`
    await tx`SELECT set_config('lock_timeout', ${String(tableWaitMs)}, true)`
    await tx`
      CREATE TABLE IF NOT EXISTS schema_migrations (
        name text PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`
    const [before] = await tx<{ checksum: string }[]>`
      SELECT checksum FROM schema_migrations WHERE name = ${migration.name}`
    if (before !== undefined) {
      if (before.checksum === checksum) return false
      throw new MigrationError(
        migration.name,
        'the file differs from what was applied; put it back and write a new migration',
      )
    }
    try {
      await tx.unsafe(migration.sql)
    } catch (error) {
      throw new MigrationError(migration.name, (error as Error).message, error)
    }
    await tx`INSERT INTO schema_migrations (name, checksum) VALUES (${migration.name}, ${checksum})`
    return true
  })
}
