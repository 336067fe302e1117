import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { is } from 'drizzle-orm'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import postgres, { type Sql } from 'postgres'
import { type FreshDatabase, freshDatabase } from '../../stack/testing.ts'
import { MigrationError, migrate, readMigrations } from './migrate.ts'
import * as tables from './tables.ts'

let database: FreshDatabase
let sql: Sql

before(async () => {
  database = await freshDatabase()
  sql = postgres(database.url, { max: 2, onnotice: () => undefined })
})
after(async () => {
  await sql.end()
  await database.drop()
})

async function withDatabase(work: (url: string, sql: Sql) => Promise<void>): Promise<void> {
  const own = await freshDatabase()
  const client = postgres(own.url, { max: 1, onnotice: () => undefined })
  try {
    await work(own.url, client)
  } finally {
    await client.end()
    await own.drop()
  }
}

const counting = [
  { name: '0001_runs', sql: 'CREATE TABLE runs (n int); INSERT INTO runs VALUES (1);' },
  { name: '0002_more', sql: 'INSERT INTO runs VALUES (2); SELECT pg_sleep(0.05);' },
]

test('processes that start together apply every migration once (case-I11)', async () => {
  await withDatabase(async (url, client) => {
    const all = await Promise.all(Array.from({ length: 6 }, () => migrate(url, counting)))
    assert.deepEqual(all.flat().sort(), ['0001_runs', '0002_more'])
    assert.deepEqual(
      (await client`SELECT n FROM runs ORDER BY n`).map(({ n }) => n),
      [1, 2],
    )
    assert.deepEqual(await migrate(url, counting), [])
  })
})

test('an edited migration is refused, and nothing after it is applied', async () => {
  await withDatabase(async (url, client) => {
    await migrate(url, counting.slice(0, 1))
    const edited = [{ ...counting[0]!, sql: `${counting[0]!.sql} -- edited` }, counting[1]!]
    await assert.rejects(migrate(url, edited), (error: MigrationError) => {
      assert.equal(error.migration, '0001_runs')
      assert.match(error.message, /differs from what was applied/)
      return true
    })
    assert.equal((await client`SELECT n FROM runs`).length, 1)
  })
})

test('a migration that fails half way leaves nothing and can be tried again', async () => {
  await withDatabase(async (url, client) => {
    const broken = [{ name: '0001_runs', sql: 'CREATE TABLE runs (n int); SELECT nonsense;' }]
    await assert.rejects(migrate(url, broken), MigrationError)
    const [found] =
      await client`SELECT to_regclass('runs') AS runs, to_regclass('schema_migrations') AS history`
    assert.deepEqual({ ...found }, { runs: null, history: null })
    assert.deepEqual(await migrate(url, counting), ['0001_runs', '0002_more'])
  })
})

test('a gap or a double number in the names is refused before anything is applied', async () => {
  const gap = [counting[0]!, { name: '0003_gap', sql: '' }]
  await assert.rejects(migrate('postgres://nobody@127.0.0.1:1/none', gap), /must be 0002/)
})

test('migrations of a newer version are left alone', async () => {
  await withDatabase(async (url) => {
    await migrate(url, counting)
    assert.deepEqual(await migrate(url, counting.slice(0, 1)), [])
  })
})

interface Column {
  table: string
  column: string
  type: string
  required: boolean
  key: boolean
}
const order = (columns: Column[]) =>
  columns.sort((a, b) => `${a.table}.${a.column}`.localeCompare(`${b.table}.${b.column}`))

test('tables.ts mirrors the migrated schema: tables, columns, types, nullability, keys', async () => {
  assert.deepEqual(
    await migrate(database.url),
    readMigrations().map(({ name }) => name),
  )
  const migrated = await sql<Column[]>`
    SELECT c.relname AS table, a.attname AS column, format_type(a.atttypid, a.atttypmod) AS type,
           a.attnotnull AS required, coalesce(a.attnum = ANY(i.indkey::int2[]), false) AS key
    FROM pg_class c
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
      AND c.relname <> 'schema_migrations'`
  const mirrored = Object.values(tables)
    .filter((value) => is(value, PgTable))
    .map(getTableConfig)
    .flatMap(({ name, columns, primaryKeys }) => {
      const keys = new Set(primaryKeys.flatMap((key) => key.columns.map((column) => column.name)))
      return columns.map(
        (column): Column => ({
          table: name,
          column: column.name,
          type: column.getSQLType(),
          required: column.notNull || column.primary || keys.has(column.name),
          key: column.primary || keys.has(column.name),
        }),
      )
    })
  assert.deepEqual(order(mirrored), order(migrated.map((column) => ({ ...column }))))
})

test('every unique key of a table that grows with users contains the user, so that it can be distributed', async () => {
  await migrate(database.url)
  const keys = await sql<{ index: string; columns: string[] }[]>`
    SELECT x.relname AS index, array_agg(a.attname) AS columns
    FROM pg_index i
    JOIN pg_class x ON x.oid = i.indexrelid
    JOIN pg_class t ON t.oid = i.indrelid AND t.relkind = 'p'
    JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = ANY(i.indkey::int2[])
    WHERE i.indisunique GROUP BY x.relname`
  assert.ok(keys.length >= 4)
  for (const { index, columns } of keys) assert.ok(columns.includes('user_id'), index)
})
