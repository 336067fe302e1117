import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { claim } from '../lua/claim.ts'
import { until } from '../stack/process.ts'
import { type FreshDatabase, freshDatabase, temporaryFolder } from '../stack/testing.ts'
import { claimArgs } from './claim/testing.ts'
import { demoCampaign } from './ops/demo.ts'
import { runOps } from './ops/run.ts'
import { makeRig, type Rig } from './rig.test.ts'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))
let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

interface Core {
  child: ChildProcess
  url: string
  log: () => string
}
const startedAll: ChildProcess[] = []
after(() => {
  for (const child of startedAll) child.kill('SIGKILL')
})

function spawnCore(env: Record<string, string | undefined>): { child: ChildProcess; log: () => string } {
  const child = spawn(process.execPath, [main], {
    env: { PATH: process.env['PATH'], ...rig.env, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  startedAll.push(child)
  let log = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    log += text
  })
  return { child, log: () => log }
}

async function startCore(env: Record<string, string | undefined> = {}): Promise<Core> {
  const { child, log } = spawnCore(env)
  const lines = createInterface({ input: child.stdout! })
  const first = once(lines, 'line') as Promise<[string]>
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the core ended: ${log()}`)
  })
  const [line] = await Promise.race([first, ended])
  ended.catch(() => undefined)
  return { child, url: (JSON.parse(line) as { listening: string }).listening, log }
}

/** Not at the first look: each check has a deadline of its own, which a machine that stalls may miss. */
const untilReady = (url: string) =>
  until(async () => (await fetch(`${url}/readyz`)).status === 200, 'it is not ready', 15_000)

const exitOf = async (child: ChildProcess) => {
  if (child.exitCode !== null) return child.exitCode
  const [code] = (await once(child, 'exit')) as [number | null]
  return code
}

test('it says in one line of JSON where it listens, is ready then, and ends in order on SIGTERM', async () => {
  const { child, url, log } = await startCore()
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
  await untilReady(url)
  child.kill('SIGTERM')
  assert.equal(await exitOf(child), 0)
  assert.match(log(), /"msg":"stopped"/)
})

test('a published campaign gets its lease, and what it accepts becomes a coupon that its user is told of', async () => {
  const { child, url } = await startCore()
  const ops = async (...argv: string[]) => {
    const out: string[] = []
    const io = { env: { TIDEGATE_TOKEN: '' }, home: '/nowhere', err: () => undefined, readStdin: () => '' }
    const who = argv[1] === 'approve' ? 'approver:anna' : 'operator:olga'
    const code = await runOps([...argv, '--json', '--core', url, '--token', await rig.login(who)], {
      ...io,
      out: (line) => out.push(line),
    })
    assert.equal(code, 0)
    return JSON.parse(out.at(-1)!) as { id: string }
  }
  const file = join(temporaryFolder('main'), 'campaign.json')
  const demo = { name: 'd', quota: 5, perUserLimit: 1, opensInS: 0, hours: 1, nowMs: Date.now() }
  writeFileSync(file, JSON.stringify(demoCampaign(demo)))
  const { id } = await ops('campaign', 'create', '--file', file)
  for (const verb of ['submit', 'approve', 'publish']) await ops('campaign', verb, id)

  const bucket = { campaignId: id, bucket: 0 }
  const ursula = claimArgs('ursula')
  const accept = async () => {
    const [verdict] = (await claim(rig.deps.runner, bucket, [ursula])).verdicts
    return verdict?.decision === 'ACCEPTED' && verdict
  }
  const { requestId } = await until(accept, 'no lease came', 30_000)
  const headers = { 'Tidegate-Assertion': rig.assertion('ursula') }
  const read = async () => {
    const response = await fetch(`${url}/v1/claims/${requestId}`, { headers })
    const claimed = (await response.json()) as { status?: string; coupon_id?: string }
    return claimed.status === 'DELIVERED' && claimed
  }
  assert.ok((await until(read, 'it was not delivered', 20_000)).coupon_id)
  child.kill('SIGTERM')
  assert.equal(await exitOf(child), 0)
})

test('an answer under way is finished before it ends, and no new one begun', async () => {
  const { child, url } = await startCore()
  const lock = postgres(rig.env['DATABASE_URL']!, { max: 1 })
  let release = (): void => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const locked = Promise.withResolvers<void>()
  const holding = lock.begin(async (tx) => {
    await tx`LOCK TABLE campaigns IN ACCESS EXCLUSIVE MODE`
    locked.resolve()
    await held
  })
  await locked.promise
  const authorization = { Authorization: `Bearer ${await rig.login('operator:o')}` }
  const slow = fetch(`${url}/admin/v1/campaigns`, { headers: authorization })
  // The list's own statement: the core's rounds wait for the table too, and other databases are busy as well.
  const waiting = async () => {
    const rows = await rig.deps.db.admin.sql`
      SELECT 1 FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%from "campaigns"%'`
    return rows.length > 0
  }
  await until(waiting, 'the request never came to the database', 8_000)
  child.kill('SIGTERM')
  const refused = async () => {
    try {
      await fetch(`${url}/healthz`)
      return false
    } catch {
      return true
    }
  }
  await until(refused, 'it still takes connections', 15_000)
  release()
  await holding
  await lock.end()
  assert.equal((await slow).status, 200)
  assert.equal(await exitOf(child), 0)
})

test('it ends with its parent when told to', async () => {
  const { child } = await startCore({ TIDEGATE_PARENT: '1' })
  child.stdin!.end()
  assert.equal(await exitOf(child), 0)
})

test('a wrong environment ends it with the names and cures, and no secret', async () => {
  const { child, log } = spawnCore({ DATABASE_URL: undefined, EDGE_CORE_KEYS: 'k1:hunter2' })
  assert.equal(await exitOf(child), 78)
  assert.match(log(), /DATABASE_URL: is missing: give postgres:/)
  const short = spawnCore({ EDGE_CORE_KEYS: 'k1:hunter2' })
  assert.equal(await exitOf(short.child), 78)
  assert.match(short.log(), /^EDGE_CORE_KEYS/m)
  assert.doesNotMatch(log() + short.log(), /hunter2/)
})

test('processes that start together on an empty database all become ready (case-I11)', async () => {
  const database: FreshDatabase = await freshDatabase()
  try {
    const cores = await Promise.all([1, 2, 3].map(() => startCore({ DATABASE_URL: database.url })))
    for (const { url } of cores) await untilReady(url)
    for (const { child } of cores) child.kill('SIGTERM')
    for (const { child } of cores) assert.equal(await exitOf(child), 0)
  } finally {
    await database.drop()
  }
})
