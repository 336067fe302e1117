import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, describe, it, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type Bucket, drainGroup, logKey } from '../lua/keys.ts'
import { snapshot } from '../lua/stock.ts'
import { until } from '../stack/process.ts'
import { discard, type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from '../stack/testing.ts'
import { startDrain } from './claim/drain.ts'
import { readClaim } from './claim/status.ts'
import { claimFor, environmentFor, type Ground, openCampaign, openGround, people } from './claim/testing.ts'
import { ConfigurationError } from './env.ts'
import { coreRoles, parseRoles } from './role.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
const children = new Set<ChildProcess>()
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  for (const child of children) child.kill('SIGKILL')
  await ground.close()
  await discard(redis)
  await database.drop()
})

interface Process {
  child: ChildProcess
  url: string
  stop(): Promise<void>
}

async function startRole(role: string): Promise<Process> {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url))
  const child = spawn(process.execPath, [main, '--role', role], {
    env: { ...environmentFor(database.url, redis.url), LOG_LEVEL: 'fatal', TIDEGATE_PARENT: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.add(child)
  const gone = once(child, 'exit')
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  return {
    child,
    url: (JSON.parse(line) as { listening: string }).listening,
    async stop() {
      child.kill('SIGTERM')
      await gone
      children.delete(child)
    },
  }
}

async function untilDrained(bucket: Bucket, deadlineMs = 30_000): Promise<void> {
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', deadlineMs)
}

async function assertIssuedOnce(bucket: Bucket, count: number): Promise<void> {
  const [row] = await ground.sql`
    SELECT issued::int, (SELECT count(*) FROM coupons k WHERE k.campaign_id = s.campaign_id)::int AS coupons,
      (SELECT count(*) FROM ledger l WHERE l.campaign_id = s.campaign_id)::int AS ledger,
      (SELECT count(*) FROM compensations d WHERE d.campaign_id = s.campaign_id)::int AS debts
    FROM campaign_stock s WHERE s.campaign_id = ${bucket.campaignId}`
  assert.deepEqual({ ...row }, { issued: count, coupons: count, ledger: count, debts: 0 })
  const gate = await snapshot(ground.deps.runner, bucket)
  assert.deepEqual([gate?.accepted, gate?.settled, gate?.entries], [count, count, 0])
}

test('a core does one part, all of them, or says what it was asked wrongly', () => {
  assert.deepEqual([...parseRoles([])], [...coreRoles])
  assert.deepEqual([...parseRoles(['--role', 'all'])], [...coreRoles])
  assert.deepEqual([...parseRoles(['--role', 'drain'])], ['drain'])
  assert.throws(() => parseRoles(['--role', 'cook']), ConfigurationError)
  assert.throws(() => parseRoles(['--rolle', 'api']), ConfigurationError)
})

it('a storm of queries that holds every connection for reads does not keep the drain from issuing (SC8)', async () => {
  const { sql } = ground.deps.db.query
  let through = false
  // Statements for reads are cut after two seconds: each connection then gets the next one.
  const hog = async () => {
    while (!through) await sql`SELECT pg_sleep(2)`.catch(() => undefined)
  }
  const hogs = Array.from({ length: sql.options.max }, hog)
  const drain = startDrain(ground.deps, { consumer: 'in-storm' })
  // Opened in the storm: also a campaign that the drain has to find first.
  const bucket = await openCampaign(ground, { quota: 1_000 })
  const accepted = await claimFor(ground, bucket, people(1_000))
  const storm = accepted
    .slice(0, 200)
    .map(({ userId, requestId }) => readClaim(ground.deps, userId, requestId).catch(() => undefined))
  await untilDrained(bucket, 20_000)
  await drain.stop()
  through = true
  await assertIssuedOnce(bucket, 1_000)
  await Promise.all([...hogs, ...storm])
})

describe('core processes of one role each', () => {
  it('a drain and a frozen drain beyond autoclaim, thawed again, issue each claim once between them', async () => {
    const [one, two] = await Promise.all([startRole('drain'), startRole('drain')])
    const bucket = await openCampaign(ground, { quota: 10_000 })
    await claimFor(ground, bucket, people(64, 'first'))
    await untilDrained(bucket)
    const key = logKey(bucket)
    // Frozen at a moment when it has entries in hand: it keeps trying until that is so.
    let frozen = false
    for (let round = 0; !frozen && round < 50; round++) {
      await claimFor(ground, bucket, people(128, `round-${round}`))
      two.child.kill('SIGSTOP')
      const pending = (await ground.redis.xpending(key, drainGroup)) as [number, unknown, unknown, unknown]
      const held = ((pending[3] ?? []) as [string, string][]).some(([name]) =>
        name.endsWith(`-${two.child.pid}`),
      )
      if (held) frozen = true
      else {
        two.child.kill('SIGCONT')
        await untilDrained(bucket)
      }
    }
    assert.ok(frozen, 'it never had an entry in hand')
    await claimFor(ground, bucket, people(64, 'while-frozen'))
    // Whatever the frozen one holds is taken over after limits.autoclaimIdleMs.
    await untilDrained(bucket, 40_000)
    two.child.kill('SIGCONT')
    await claimFor(ground, bucket, people(64, 'after'))
    await untilDrained(bucket)
    const accepted = (await snapshot(ground.deps.runner, bucket))!.accepted
    await assertIssuedOnce(bucket, accepted)
    await Promise.all([one.stop(), two.stop()])
  })

  it('serve probes whatever they do, and the API only as api', async () => {
    const [api, notify] = await Promise.all([startRole('api'), startRole('notify')])
    for (const { url } of [api, notify])
      await until(async () => (await fetch(`${url}/readyz`)).status === 200, 'it is not ready', 20_000)
    assert.equal((await fetch(`${api.url}/v1/me/coupons`)).status, 401)
    assert.equal((await fetch(`${notify.url}/v1/me/coupons`)).status, 404)
    await Promise.all([api.stop(), notify.stop()])
  })
})
