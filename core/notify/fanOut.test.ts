import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { after, before, describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { sealAssertion } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { environmentFor, type Ground, openGround } from '../claim/testing.ts'
import { type Listener, listen } from './testing.ts'

/** Whole core processes on one Postgres and one Redis, of which each in turn dies. */

interface Core {
  child: ChildProcess
  url: string
}

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
const cores: Core[] = []
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
  cores.push(...(await Promise.all([startCore(), startCore()])))
})
after(async () => {
  for (const { child } of cores) child.kill('SIGKILL')
  await ground.close()
  await discard(redis)
  await database.drop()
})

async function startCore(): Promise<Core> {
  const child = spawn(process.execPath, [fileURLToPath(new URL('../main.ts', import.meta.url))], {
    env: {
      PATH: process.env['PATH'],
      ...environmentFor(database.url, redis.url),
      TIDEGATE_PARENT: '1',
      LOG_LEVEL: 'fatal',
    },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string]
  return { child, url: (JSON.parse(line) as { listening: string }).listening }
}

async function open(core: Core, userId: string, lastEventId?: string): Promise<Listener> {
  const stream = await listen(`${core.url}/v1/me/events`, {
    'Tidegate-Assertion': sealAssertion(userId, Date.now(), ground.deps.keyrings.edgeCore),
    ...(lastEventId === undefined ? {} : { 'Last-Event-ID': lastEventId }),
  })
  if (lastEventId === undefined) await stream.next('snapshot')
  return stream
}

/** One event for each user, in one transaction as a drain's. */
async function happen(userIds: string[], mark: string): Promise<void> {
  await ground.sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    SELECT user_id, 'coupon.used', jsonb_build_object('mark', ${mark}::text), now()
    FROM unnest(${userIds}::text[]) AS u(user_id)`
}

const marksOf = ({ events }: Listener) =>
  events.flatMap(({ type, data }) => (type === 'coupon.used' ? [data['mark'] as string] : []))

const hears = (stream: Listener, mark: string) =>
  until(() => marksOf(stream).includes(mark), `${mark} was never told`, 20_000)

describe('several processes', () => {
  it('tell every user, whichever process his stream is at, each event once', async () => {
    const users = Array.from({ length: 40 }, (_, i) => `fan-${i}`)
    const streams = await Promise.all(users.map((user, i) => open(cores[i % 2]!, user)))
    await happen(users, 'first')
    await Promise.all(streams.map((stream) => hears(stream, 'first')))
    await happen(users, 'second')
    await Promise.all(streams.map((stream) => hears(stream, 'second')))
    for (const stream of streams) {
      assert.deepEqual(marksOf(stream), ['first', 'second'])
      stream.hangUp()
    }
  })

  it('lose nothing when one is killed: its clients resume at another with what happened meanwhile (case-J3)', async () => {
    const users = Array.from({ length: 20 }, (_, i) => `kill-${i}`)
    const dying = await startCore()
    const streams = await Promise.all(users.map((user) => open(dying, user)))
    await happen(users, 'before')
    await Promise.all(streams.map((stream) => hears(stream, 'before')))
    // In the middle of its telling: some have heard, some have not, and nobody knows which.
    await happen(users, 'during')
    dying.child.kill('SIGKILL')
    await Promise.all(streams.map(({ ended }) => ended))
    await happen(users, 'after')
    for (const [i, user] of users.entries()) {
      const heard = streams[i]!
      const resumed = await open(cores[0]!, user, heard.events.at(-1)!.id)
      await hears(resumed, 'after')
      const all = new Set([...marksOf(heard), ...marksOf(resumed)])
      assert.deepEqual([...all], ['before', 'during', 'after'], user)
      resumed.hangUp()
    }
  })

  it('tell after Redis was killed and came back what happened meanwhile, on streams that stayed open', async () => {
    const users = ['redis-0', 'redis-1', 'redis-2', 'redis-3']
    const streams = await Promise.all(users.map((user, i) => open(cores[i % 2]!, user)))
    await redis.kill()
    await happen(users, 'meanwhile')
    await redis.restart()
    await Promise.all(streams.map((stream) => hears(stream, 'meanwhile')))
    await happen(users, 'later')
    await Promise.all(streams.map((stream) => hears(stream, 'later')))
    for (const stream of streams) stream.hangUp()
  })

  it('leave no stream to a client that has gone (case-J2)', async () => {
    const core = cores[1]!
    const open_ = async () => {
      const text = await (await fetch(`${core.url}/metrics`)).text()
      return Number(/^tidegate_streams_open (\d+)/m.exec(text)![1])
    }
    await until(async () => (await open_()) === 0, 'streams of the gone stay', 20_000)
    const streams = await Promise.all(['gone-0', 'gone-1'].map((user) => open(core, user)))
    assert.equal(await open_(), 2)
    for (const stream of streams) stream.hangUp()
    await until(async () => (await open_()) === 0, 'streams of the gone stay', 20_000)
  })
})
