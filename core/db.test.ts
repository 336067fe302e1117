import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { sql as expression } from 'drizzle-orm'
import { migrate } from '../schema/db/migrate.ts'
import { campaigns } from '../schema/db/tables.ts'
import { type FreshDatabase, freshDatabase } from '../stack/testing.ts'
import { connectDatabase, type Database, isDatabaseAway } from './db.ts'

let fresh: FreshDatabase
let db: Database

before(async () => {
  fresh = await freshDatabase()
  await migrate(fresh.url)
  db = connectDatabase({ url: fresh.url, prepare: true })
  await db.admin.sql`CREATE TABLE notes (n int)`
})
after(async () => {
  await db.close()
  await fresh.drop()
})

const notes = async () => (await db.query.sql`SELECT n FROM notes ORDER BY n`).map(({ n }) => n as number)

async function kill(pid: number): Promise<void> {
  await db.query.sql`SELECT pg_terminate_backend(${pid})`
  const deadline = Date.now() + 15_000
  for (;;) {
    const [left] = await db.query.sql`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid}`
    if (left === undefined) return
    assert.ok(Date.now() < deadline, 'the backend lives on')
  }
}

for (const through of ['sql', 'orm'] as const) {
  test(`a transaction whose backend was killed fails wholly, also statements after it (case-I4, ${through})`, async () => {
    const later: unknown[] = []
    let finished: Promise<void> | undefined
    const work = async (run: (text: string) => PromiseLike<unknown>) => {
      const [row] = (await run('SELECT pg_backend_pid() AS pid')) as [{ pid: number }]
      await run('INSERT INTO notes VALUES (1)')
      await kill(row.pid)
      // Others use the pool meanwhile, so that its broken connection is opened anew.
      await Promise.all(Array.from({ length: 8 }, () => db.admin.sql`SELECT 1`))
      for (const n of [2, 3])
        await Promise.resolve(run(`INSERT INTO notes VALUES (${n})`)).catch((e) => later.push(e))
    }
    const outcome =
      through === 'sql'
        ? db.admin.transaction((tx) => (finished = work((text) => tx.unsafe(text))))
        : db.admin.orm.transaction((tx) => (finished = work((text) => tx.execute(expression.raw(text)))))
    await assert.rejects(outcome, isDatabaseAway)
    await finished
    assert.equal(later.length, 2)
    assert.ok(later.every(isDatabaseAway))
    assert.deepEqual(await notes(), [])
    assert.equal(await db.admin.transaction(async (tx) => (await tx`SELECT 1 AS one`)[0]?.['one']), 1)
  })
}

test('a transaction killed in the middle of a statement fails wholly and leaves the pool usable (case-I4)', async () => {
  let mine = 0
  const outcome = db.admin.transaction(async (tx) => {
    mine = (await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`)[0]!.pid
    await tx`INSERT INTO notes VALUES (1)`
    try {
      await Promise.all([tx`SELECT pg_sleep(30)`, kill(mine)])
    } catch {
      // A handler that carries on regardless is what the guard is for.
    }
    await tx`INSERT INTO notes VALUES (2)`
  })
  await assert.rejects(outcome, isDatabaseAway)
  assert.deepEqual(await notes(), [])
  await db.admin.sql`SELECT 1`
})

test('a transaction commits what resolves and rolls back what rejects, savepoints within it', async () => {
  await db.admin.transaction(async (tx) => {
    await tx`INSERT INTO notes VALUES (1)`
    await assert.rejects(
      tx.savepoint(async (inner) => {
        await inner`INSERT INTO notes VALUES (2)`
        throw new Error('undone')
      }),
      /undone/,
    )
  })
  await assert.rejects(
    db.admin.transaction(async (tx) => {
      await tx`INSERT INTO notes VALUES (3)`
      throw new Error('all undone')
    }),
    /all undone/,
  )
  assert.deepEqual(await notes(), [1])
  await db.admin.sql`TRUNCATE notes`
})

test('counters are numbers and instants are dates, by template and by drizzle', async () => {
  const at = new Date('2026-11-30T08:00:00.123Z')
  await db.admin.orm.insert(campaigns).values({
    campaignId: 'c1',
    name: 'n',
    mode: 'first_come',
    state: 'DRAFT',
    version: 1,
    configVersion: 1,
    ruleVersion: 1,
    quota: 9_007_199_254_740_991,
    perUserLimit: 1,
    bucketCount: 1,
    startsAt: at,
    endsAt: new Date(at.getTime() + 1),
    timeZone: 'UTC',
    createdBy: 'a',
    createdAt: at,
    updatedAt: at,
  })
  const [typed] = await db.query.orm.select().from(campaigns)
  const [plain] = await db.query.sql`SELECT quota, starts_at FROM campaigns WHERE starts_at = ${at}`
  assert.deepEqual([typed?.quota, typed?.startsAt], [9_007_199_254_740_991, at])
  assert.deepEqual({ ...plain }, { quota: 9_007_199_254_740_991, starts_at: at })
})

test('a statement that runs too long is ended, and counts as the database being away', async () => {
  await assert.rejects(db.query.sql`SELECT pg_sleep(30)`, isDatabaseAway)
})

test('without prepared statements none stays on the server, so a pooler loses nothing (case-I5)', async () => {
  const count = async (prepare: boolean) => {
    const own = connectDatabase({ url: fresh.url, prepare })
    try {
      return await own.query.transaction(async (tx) => {
        for (let i = 0; i < 3; i++) await tx`SELECT ${i}::int AS i`
        const [row] = await tx.unsafe('SELECT count(*)::int AS n FROM pg_prepared_statements')
        return row?.['n'] as number
      })
    } finally {
      await own.close()
    }
  }
  assert.ok((await count(true)) > 0)
  assert.equal(await count(false), 0)
})

test('a database that nobody serves fails soon and counts as away', async () => {
  const away = connectDatabase({ url: 'postgres://u:p@127.0.0.1:1/none', prepare: true })
  await assert.rejects(away.query.sql`SELECT 1`, isDatabaseAway)
  await away.close()
})
