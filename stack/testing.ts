import { randomBytes } from 'node:crypto'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { keepAtExit, removeAtExit } from './guard.ts'
import { startPostgres } from './postgres.ts'
import { type Redis, type RedisOptions, startRedis } from './redis.ts'
import { ensureRedis } from './redis-install.ts'

/**
 * Real parts for tests. Under `npm test` the programs and one PostgreSQL are there already, named by
 * TEST_REDIS_BIN and TEST_DATABASE_URL; a test file run by hand starts what is missing. Whatever is started
 * ends, and its files go, when the test process ends, however it ends.
 */

export interface FreshDatabase {
  /** Superuser URL of an empty database of its own. */
  url: string
  drop(): Promise<void>
}

export interface FreshRedis {
  url: string
  port: number
  dir: string
  /** Orderly end; the data stay for `restart`. */
  stop(): Promise<void>
  /** SIGKILL; what was written to the append-only file stays for `restart`. */
  kill(): Promise<void>
  /** Starts again on the same port and data, ending it first (orderly) if it runs. */
  restart(): Promise<void>
  pid(): number
}

const restartsMax = 10
const HOME = fileURLToPath(new URL('../.tidegate/', import.meta.url))

/** A temporary folder that is removed when this process ends; other users may pass through it. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `tidegate-${name}-`))
  chmodSync(folder, 0o711)
  removeAtExit(folder)
  return folder
}

let server: Promise<string> | undefined

async function startTestServer(): Promise<string> {
  const folder = temporaryFolder('postgres')
  const started = await startPostgres({
    dir: join(folder, 'postgres'),
    settings: { fsync: 'off', shared_buffers: '64MB' },
    background: true,
  })
  if (!started.dir.startsWith(folder)) removeAtExit(started.dir)
  return started.url
}

/** Superuser URL of the test run's PostgreSQL server. */
export async function testServerUrl(): Promise<string> {
  server ??= process.env['TEST_DATABASE_URL']
    ? Promise.resolve(process.env['TEST_DATABASE_URL'])
    : startTestServer()
  return server
}

async function run(url: string, statement: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  try {
    await sql.unsafe(statement)
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Makes an empty database of its own in a real PostgreSQL. */
export async function freshDatabase(): Promise<FreshDatabase> {
  const admin = await testServerUrl()
  const name = `test_${randomBytes(8).toString('hex')}`
  await run(admin, `CREATE DATABASE ${name}`)
  const url = new URL(admin)
  url.pathname = `/${name}`
  return {
    url: url.href,
    // FORCE: a test that failed half way may have left connections open.
    drop: () => run(admin, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  }
}

/** The path of a `redis-server` program. */
export async function redisBinary(): Promise<string> {
  return process.env['TEST_REDIS_BIN'] ?? ensureRedis({ home: join(HOME, 'redis-program') })
}

/** Starts a real Redis of its own: any free port, own folder, append-only file synced every second. */
export async function freshRedis(
  options: Pick<RedisOptions, 'appendfsync' | 'args'> = {},
): Promise<FreshRedis> {
  const dir = temporaryFolder('redis')
  const binary = await redisBinary()
  const start = (port?: number): Promise<Redis> =>
    startRedis({ ...options, binary, dir, background: true, ...(port === undefined ? {} : { port }) })
  let current = await start()
  const { url, port } = current
  return {
    url,
    port,
    dir,
    pid: () => current.pid,
    async stop() {
      await current.stop()
    },
    async kill() {
      await current.kill()
    },
    async restart() {
      await current.stop()
      for (let attempt = 1; ; attempt++) {
        current = await start(port)
        if (current.port === port) return
        // Whoever looked for a free port at that moment may let go of this one again.
        await current.kill()
        if (attempt === restartsMax) throw new Error(`Port ${port} was taken while Redis was down`)
        await pause(500)
      }
    },
  }
}

/** Ends a test's Redis and removes its folder before the process ends. */
export async function discard(redis: FreshRedis): Promise<void> {
  await redis.kill()
  rmSync(redis.dir, { recursive: true, force: true })
  keepAtExit(redis.dir)
}
