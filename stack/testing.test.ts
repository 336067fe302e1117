import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import { isRunning, until } from './process.ts'
import { freshDatabase, freshRedis } from './testing.ts'

test('every fresh database is empty, its own, UTF-8 and in UTC', async () => {
  const [one, two] = await Promise.all([freshDatabase(), freshDatabase()])
  assert.notEqual(one.url, two.url)
  const sql = postgres(one.url, { max: 1 })
  await sql`CREATE TABLE t (v text)`
  const [row] = await sql`SELECT current_setting('TimeZone') AS tz, current_setting('server_encoding') AS enc`
  assert.deepEqual({ ...row }, { tz: 'UTC', enc: 'UTF8' })
  await one.drop()
  await assert.rejects(sql`SELECT 1`)
  await sql.end()
  const other = postgres(two.url, { max: 1 })
  const [found] = await other`SELECT to_regclass('t') AS t`
  assert.equal(found?.['t'], null)
  await other.end()
  await two.drop()
})

test('a fresh Redis keeps appended data over kill and restart, and never evicts', async () => {
  const redis = await freshRedis({ appendfsync: 'always' })
  const client = new Redis(redis.url, {
    lazyConnect: true,
    maxRetriesPerRequest: null,
    retryStrategy: () => 50,
  })
  client.on('error', () => undefined)
  await client.set('k', 'v')
  await redis.kill()
  await redis.restart()
  assert.equal(await client.get('k'), 'v')
  assert.deepEqual(await client.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction'])
  client.disconnect()
  await redis.stop()
})

test('what a test process started ends with it, also after kill -9, and its folder goes', async () => {
  const script = `
    const { freshRedis } = await import(${JSON.stringify(fileURLToPath(new URL('./testing.ts', import.meta.url)))})
    const redis = await freshRedis()
    console.log(JSON.stringify({ pid: redis.pid(), dir: redis.dir }))
    setInterval(() => undefined, 1000)
  `
  const child = execFile(process.execPath, ['--input-type=module', '-e', script])
  const line = await new Promise<string>((resolve) => child.stdout?.once('data', resolve))
  const { pid, dir } = JSON.parse(line) as { pid: number; dir: string }
  const { birthOf } = await import('./process.ts')
  const birth = birthOf(pid)
  assert.ok(birth)
  child.kill('SIGKILL')
  await until(() => !isRunning({ pid, birth }), 'Redis outlived its test process', 30_000)
  await until(() => !existsSync(dir), 'the folder was left behind', 30_000)
})
