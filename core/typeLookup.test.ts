import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { type FaultProxy, startFaultProxy } from '../stack/faultProxy.ts'
import { type FreshDatabase, freshDatabase } from '../stack/testing.ts'

let database: FreshDatabase
let proxy: FaultProxy
before(async () => {
  database = await freshDatabase()
  proxy = await startFaultProxy(Number(new URL(database.url).port))
})
after(async () => {
  await proxy.close()
  await database.drop()
})

/** A process with the core's pools, which makes further connections when it is told to. */
const program = `
  import { once } from 'node:events'
  import { connectDatabase } from '${new URL('./db.ts', import.meta.url)}'
  import { survivedTypeLookup } from '${new URL('./typeLookup.ts', import.meta.url)}'
  const db = connectDatabase({ url: process.env.URL, prepare: true })
  if (process.env.GUARDED === '1')
    process.on('unhandledRejection', (error) => {
      if (!survivedTypeLookup(error, db, { warn: () => console.log('survived') })) throw error
    })
  await Promise.all([db.query, db.issuance, db.direct, db.admin].map(({ sql }) => sql\`SELECT 1\`))
  console.log('connected')
  await once(process.stdin, 'data')
  await Promise.allSettled(Array.from({ length: 8 }, () => db.query.sql\`SELECT pg_sleep(0.5)\`))
  for (;;) if ((await Promise.allSettled([db.query.sql\`SELECT 1\`]))[0].status === 'fulfilled') break
  const [row] = await db.query.sql\`SELECT \${['a', 'b']}::text[] AS texts\`
  console.log('goes on with ' + row.texts)
  process.exit(0)`

/**
 * @returns what it said, and its exit code, when one of its further connections broke during the driver's question, and could
 * not be made again.
 */
async function breakOne(guarded: boolean): Promise<{ said: string[]; code: number | null }> {
  const way = new URL(database.url)
  way.port = String(proxy.port)
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { PATH: process.env['PATH'], URL: way.href, GUARDED: guarded ? '1' : '0' },
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  const said: string[] = []
  const lines = createInterface({ input: child.stdout! }).on('line', (line) => said.push(line))
  const ended = once(child, 'exit') as Promise<[number | null]>
  await Promise.race([once(lines, 'line'), ended])
  const broken = proxy.holdAnswer(/select b\.oid, b\.typarray/, () => proxy.refuse())
  child.stdin!.write('\n')
  try {
    await broken
    await Promise.race([once(lines, 'line'), ended])
  } finally {
    proxy.release()
  }
  const [code] = await ended
  // More than one connection may be at it.
  return { said: [...new Set(said)], code }
}

test('a connection to Postgres that breaks while the driver asks it for types ends no process', async () => {
  assert.deepEqual(await breakOne(true), { said: ['connected', 'survived', 'goes on with a,b'], code: 0 })
})

test('unguarded, it would', async () => {
  assert.deepEqual(await breakOne(false), { said: ['connected'], code: 1 })
})
