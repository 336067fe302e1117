import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import postgres from 'postgres'
import { type Postgres, startPostgres } from './postgres.ts'
import { removePostgresHome } from './postgres-home.ts'
import { identify, isRunning, type ProcessId } from './process.ts'
import { temporaryFolder } from './testing.ts'

const settings = { shared_buffers: '16MB' }

async function run(url: string, query: string): Promise<unknown[]> {
  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  try {
    return [...(await sql.unsafe(query))]
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function place(t: TestContext): string {
  const dir = join(temporaryFolder('pg'), 'postgres')
  t.after(() => removePostgresHome(dir))
  return dir
}

/** Starts a server that a kill -9 of its supervisor leaves behind: the supervisor's guard is killed first. */
async function abandonServer(dir: string): Promise<ProcessId> {
  const script = `
    const { startPostgres } = await import(${JSON.stringify(new URL('./postgres.ts', import.meta.url).href)})
    const server = await startPostgres({ dir: ${JSON.stringify(dir)}, settings: ${JSON.stringify(settings)} })
    console.log(JSON.stringify({ pid: server.pid, url: server.url }))
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (data) => resolve(String(data))),
  )
  const { pid, url } = JSON.parse(line) as { pid: number; url: string }
  await run(url, 'CREATE TABLE kept AS SELECT 1 AS v')
  const guards = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')
  for (const guard of guards) if (Number(guard) !== pid) process.kill(Number(guard), 'SIGKILL')
  child.kill('SIGKILL')
  const id = identify(pid)
  assert.ok(id, 'the server should still run')
  return id
}

const linux = process.platform === 'linux' ? {} : { skip: 'needs /proc' }

/** A server that was stopped in order, and a process file that names another program. */
async function strangerUnder(t: TestContext, server: Postgres): Promise<ReturnType<typeof spawn>> {
  await server.stop()
  const stranger = spawn('/bin/sleep', ['600'], { stdio: 'ignore' })
  t.after(() => stranger.kill())
  const data = join(server.dir, 'data')
  writeFileSync(join(data, 'postmaster.pid'), `${stranger.pid}\n${data}\n1\n1\n\n127.0.0.1\n0 0\nready\n`)
  return stranger
}

test('one data folder, however its server ended', { timeout: 300_000 }, async (t) => {
  const dir = place(t)
  let server: Postgres | undefined
  const start = async () => {
    const started = await startPostgres({ dir, settings })
    t.after(() => started.stop())
    return started
  }

  await t.test(
    'a server that a killed supervisor left behind is stopped, and its data are found',
    linux,
    async () => {
      const orphan = await abandonServer(dir)
      server = await start()
      assert.equal(isRunning(orphan), false)
      assert.deepEqual(await run(server.url, 'SELECT v FROM kept'), [{ v: 1 }])
    },
  )

  await t.test('after a kill -9 of the server itself the data are recovered', async () => {
    server ??= await start()
    await run(server.url, 'CREATE TABLE kept_too AS SELECT 2 AS v')
    await server.kill()
    server = await start()
    assert.deepEqual(await run(server.url, 'SELECT v FROM kept_too'), [{ v: 2 }])
  })

  await t.test(
    'a process file whose number belongs to another program by now stops nobody',
    linux,
    async () => {
      const stranger = await strangerUnder(t, server ?? (await start()))
      server = await start()
      assert.equal(stranger.exitCode, null)
      assert.deepEqual(await run(server.url, 'SELECT 1 AS v'), [{ v: 1 }])
    },
  )
})

test('a busy port is avoided, and only 127.0.0.1 is served, with a password, in UTC and UTF-8', async (t) => {
  const busy = createServer().listen(0, '127.0.0.1')
  t.after(() => busy.close())
  await new Promise((resolve) => busy.once('listening', resolve))
  const { port } = busy.address() as { port: number }
  const server = await startPostgres({ dir: place(t), port, settings })
  t.after(() => server.stop())
  assert.notEqual(server.port, port)
  const [row] = await run(
    server.url,
    `SELECT current_setting('listen_addresses') AS listen, current_setting('unix_socket_directories') AS socket,
            current_setting('TimeZone') AS zone, current_setting('server_encoding') AS encoding,
            current_setting('fsync') AS fsync`,
  )
  assert.deepEqual(row, { listen: '127.0.0.1', socket: '', zone: 'UTC', encoding: 'UTF8', fsync: 'on' })
  const wrong = new URL(server.url)
  wrong.password = 'wrong'
  await assert.rejects(run(wrong.href, 'SELECT 1'), /password authentication failed/)
})

const root = process.getuid?.() === 0 ? {} : { skip: 'only root has another user run PostgreSQL' }

test(
  'as root, a checkout that other users cannot enter works: its data go outside, behind a link',
  root,
  async (t) => {
    const closed = join(temporaryFolder('closed'), 'checkout')
    mkdirSync(closed, { mode: 0o700 })
    chmodSync(closed, 0o700)
    const dir = join(closed, 'postgres')
    t.after(() => removePostgresHome(dir))
    const first = await startPostgres({ dir, settings })
    await run(first.url, 'CREATE TABLE kept AS SELECT 3 AS v')
    await first.stop()
    assert.match(readlinkSync(dir), /^\/var\/lib\/tidegate\/[0-9a-f]{16}$/)
    const second = await startPostgres({ dir, settings })
    t.after(() => second.stop())
    assert.deepEqual(await run(second.url, 'SELECT v FROM kept'), [{ v: 3 }])
  },
)
