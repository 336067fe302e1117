import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { removePostgresHome } from './postgres-home.ts'
import { identify, isRunning, signal, until } from './process.ts'
import { freshDatabase, temporaryFolder } from './testing.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Endpoints {
  edge: string
  core: string
  campaign_id: string
  campaign_page: string
  logins: { user: string; token: string; page: string }[]
  pids: Record<string, number>
}

interface Run {
  child: ChildProcess
  said(): string
  ended: Promise<number | null>
}

function startIn(t: TestContext, dir: string, env: Record<string, string> = {}, args: string[] = []): Run {
  const child = spawn(process.execPath, ['stack/run.mjs', 'stack/start.ts', ...args], {
    cwd: ROOT,
    env: { ...process.env, TIDEGATE_DIR: dir, ...env },
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk) => {
      said += chunk
    })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  t.after(async () => {
    child.kill('SIGTERM')
    await ended
  })
  return { child, said: () => said, ended }
}

async function ready(run: Run, dir: string): Promise<Endpoints> {
  await until(
    () => {
      if (run.child.exitCode !== null) throw new Error(`npm start ended:\n${run.said()}`)
      return run.said().includes('Ctrl-C stops everything')
    },
    'npm start is not ready',
    120_000,
    50,
  )
  return JSON.parse(readFileSync(join(dir, 'endpoints.json'), 'utf8'))
}

function place(t: TestContext): string {
  const dir = join(temporaryFolder('start'), 'data')
  t.after(() => removePostgresHome(join(dir, 'postgres')))
  return dir
}

const idsOf = (endpoints: Endpoints) =>
  Object.values(endpoints.pids).flatMap((pid) => {
    const id = identify(pid)
    return id ? [id] : []
  })

/** The usual ports are for one start on this machine: two at the same moment would find both of them free. */
const anyPorts = { EDGE_PORT: '0', CORE_PORT: '0', GATEWAY_PORT: '0' }

test('one folder over its starts', { timeout: 600_000 }, async (t) => {
  const dir = place(t)
  let run: Run
  let endpoints: Endpoints
  const start = async (ports: Record<string, string> = anyPorts) => {
    run = startIn(t, dir, ports)
    return ready(run, dir)
  }

  await t.test('start brings up everything with a demo campaign', async () => {
    endpoints = await start({})
    assert.deepEqual(Object.keys(endpoints.pids).sort(), [
      'core',
      'edge',
      'gateway',
      'postgres',
      'redis',
      'supervisor',
    ])
    assert.equal(statSync(join(dir, 'endpoints.json')).mode & 0o777, 0o600)
    const view = await fetch(`${endpoints.edge}/v1/campaigns/${endpoints.campaign_id}`)
    assert.equal(((await view.json()) as { availability: string }).availability, 'open')
    const page = await fetch(endpoints.campaign_page)
    assert.deepEqual([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8'])
    for (const { page: address, user } of endpoints.logins)
      assert.ok(run.said().includes(address), `the page for ${user} is printed`)
    assert.ok(run.said().includes(`${endpoints.core}/docs`))
  })

  await t.test('a part that dies comes back on its address, and the process list says so', async () => {
    const before = endpoints
    process.kill(before.pids['core'] ?? 0, 'SIGKILL')
    endpoints = await until(
      () => {
        const now: Endpoints = JSON.parse(readFileSync(join(dir, 'endpoints.json'), 'utf8'))
        return now.pids['core'] !== undefined && now.pids['core'] !== before.pids['core'] && now
      },
      'the core was not restarted',
      60_000,
    )
    assert.equal(endpoints.core, before.core)
    assert.equal((await fetch(`${endpoints.core}/healthz`)).status, 200)
    assert.match(run.said(), /core ended unexpectedly \(SIGKILL\)/)
  })

  await t.test('Ctrl-C stops every process', async () => {
    const ids = idsOf(endpoints)
    assert.equal(ids.length, 6)
    run.child.kill('SIGINT')
    assert.equal(await run.ended, 0)
    assert.deepEqual(ids.filter(isRunning), [])
    assert.equal(existsSync(join(dir, 'endpoints.json')), false)
  })

  await t.test('data are found again, and a second start beside the first is refused', async () => {
    const { campaign_id } = endpoints
    endpoints = await start()
    assert.equal(endpoints.campaign_id, campaign_id)
    const beside = startIn(t, dir, anyPorts)
    assert.equal(await beside.ended, 1)
    assert.match(beside.said(), /runs on .* already \(process \d+/)
  })

  await t.test(
    'after a kill -9 of the supervisor its processes end, and the next start recovers',
    async () => {
      const { campaign_id, pids } = endpoints
      const ids = idsOf(endpoints)
      process.kill(pids['supervisor'] ?? 0, 'SIGKILL')
      await run.ended
      // At once, while the former processes may still be ending.
      endpoints = await start()
      assert.equal(endpoints.campaign_id, campaign_id)
      assert.deepEqual(ids.filter(isRunning), [])
    },
  )

  await t.test('after a kill -9 of everything the next start recovers', async () => {
    const { campaign_id, pids } = endpoints
    // The supervisor comes first, and some of the others may be gone with it already.
    for (const pid of Object.values(pids)) signal(pid, 'SIGKILL')
    await run.ended
    assert.equal((await start()).campaign_id, campaign_id)
  })
})

test('settings that cannot work are refused with what to do', async (t) => {
  const busy = createServer().listen(0, '127.0.0.1')
  t.after(() => busy.close())
  await new Promise((resolve) => busy.once('listening', resolve))
  const { port } = busy.address() as { port: number }
  const database = await freshDatabase()
  t.after(() => database.drop())
  const cases: [Record<string, string>, string[], RegExp][] = [
    [{ EDGE_PORT: 'x' }, [], /EDGE_PORT must be a port number/],
    [
      { UPSTASH_REDIS_REST_URL: 'https://x.invalid' },
      [],
      /both UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN/,
    ],
    [{ UPSTASH_REDIS_REST_URL: 'https://x.invalid', UPSTASH_REDIS_REST_TOKEN: 't' }, [], /set REDIS_URL too/],
    [{}, ['--quota', 'many'], /--quota must be a whole number/],
    [
      { GATEWAY_PORT: String(port), DATABASE_URL: database.url },
      [],
      new RegExp(`Port ${port} .* busy, and GATEWAY_PORT asks for it`),
    ],
  ]
  await Promise.all(
    cases.map(async ([env, args, message]) => {
      const run = startIn(t, place(t), env, args)
      assert.equal(await run.ended, 1)
      assert.match(run.said(), message)
    }),
  )
})
