import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { removePostgresHome } from './postgres-home.ts'
import { identify, isRunning, until } from './process.ts'
import { temporaryFolder } from './testing.ts'

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
    60_000,
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

test('start brings up everything with a demo campaign; Ctrl-C stops every process; data are found again', async (t) => {
  const dir = place(t)
  const first = startIn(t, dir)
  const endpoints = await ready(first, dir)
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
    assert.ok(first.said().includes(address), `the page for ${user} is printed`)
  assert.ok(first.said().includes(`${endpoints.core}/docs`))

  const ids = idsOf(endpoints)
  assert.equal(ids.length, 6)
  first.child.kill('SIGINT')
  assert.equal(await first.ended, 0)
  assert.deepEqual(ids.filter(isRunning), [])
  assert.equal(existsSync(join(dir, 'endpoints.json')), false)

  const second = startIn(t, dir)
  assert.equal((await ready(second, dir)).campaign_id, endpoints.campaign_id)
  const third = startIn(t, dir)
  assert.equal(await third.ended, 1)
  assert.match(third.said(), /runs on .* already \(process \d+/)
})

test('after a kill -9 of the supervisor its processes end, and the next start recovers', async (t) => {
  const dir = place(t)
  const first = startIn(t, dir)
  const endpoints = await ready(first, dir)
  const ids = idsOf(endpoints)
  process.kill(endpoints.pids['supervisor'] ?? 0, 'SIGKILL')
  await first.ended
  // At once, while the former processes may still be ending.
  const second = startIn(t, dir)
  const recovered = await ready(second, dir)
  assert.equal(recovered.campaign_id, endpoints.campaign_id)
  assert.deepEqual(ids.filter(isRunning), [])

  for (const pid of Object.values(recovered.pids)) process.kill(pid, 'SIGKILL')
  await second.ended
  const third = startIn(t, dir)
  assert.equal((await ready(third, dir)).campaign_id, endpoints.campaign_id)
})

test('a part that dies comes back on its address, and the process list says so', async (t) => {
  const dir = place(t)
  const run = startIn(t, dir)
  const before = await ready(run, dir)
  process.kill(before.pids['core'] ?? 0, 'SIGKILL')
  const after = await until(
    () => {
      const now: Endpoints = JSON.parse(readFileSync(join(dir, 'endpoints.json'), 'utf8'))
      return now.pids['core'] !== undefined && now.pids['core'] !== before.pids['core'] && now
    },
    'the core was not restarted',
    20_000,
  )
  assert.equal(after.core, before.core)
  assert.equal((await fetch(`${after.core}/healthz`)).status, 200)
  assert.match(run.said(), /core ended unexpectedly \(SIGKILL\)/)
})

test('settings that cannot work are refused with what to do', async (t) => {
  const busy = createServer().listen(0, '127.0.0.1')
  t.after(() => busy.close())
  await new Promise((resolve) => busy.once('listening', resolve))
  const { port } = busy.address() as { port: number }
  const cases: [Record<string, string>, string[], RegExp][] = [
    [{ EDGE_PORT: 'x' }, [], /EDGE_PORT must be a port number/],
    [
      { UPSTASH_REDIS_REST_URL: 'https://x.invalid' },
      [],
      /both UPSTASH_REDIS_REST_URL and UPSTASH_REDIS_REST_TOKEN/,
    ],
    [{ UPSTASH_REDIS_REST_URL: 'https://x.invalid', UPSTASH_REDIS_REST_TOKEN: 't' }, [], /set REDIS_URL too/],
    [{}, ['--quota', 'many'], /--quota must be a whole number/],
    [{ GATEWAY_PORT: String(port) }, [], new RegExp(`Port ${port} .* busy, and GATEWAY_PORT asks for it`)],
  ]
  for (const [env, args, message] of cases) {
    const run = startIn(t, place(t), env, args)
    assert.equal(await run.ended, 1)
    assert.match(run.said(), message)
  }
})
