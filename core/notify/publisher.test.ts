import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { resultsChannel } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { type Ground, openGround } from '../claim/testing.ts'
import { decodeEvents } from './event.ts'
import { publishOnce, startPublisher, sweepOutbox } from './publisher.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
const heard: number[] = []
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
  const ear = ground.deps.subscription()
  ear.on('message', (_, message: string) =>
    heard.push(...decodeEvents(message).map((event) => event.eventId)),
  )
  await ear.subscribe(resultsChannel)
  ground.runs({ stop: async () => ear.disconnect() })
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

async function addEvents(count: number, createdAt = new Date()): Promise<number[]> {
  const rows = await ground.sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    SELECT 'user-' || i, 'coupon.used', jsonb_build_object('n', i), ${createdAt}
    FROM generate_series(1, ${count}::int) i RETURNING event_id::int`
  return rows.map((row) => row['event_id'] as number)
}

async function unpublished(): Promise<number> {
  const [row] = await ground.sql`SELECT count(*)::int AS n FROM outbox WHERE published_at IS NULL`
  return row!['n'] as number
}

describe('the publisher', () => {
  it('tells every event, and several of them tell each event once between them (IS9)', async () => {
    const ids = await addEvents(2_500)
    heard.length = 0
    const round = () => publishOnce(ground.deps)
    const told = await Promise.all([round(), round(), round(), round()])
    assert.equal(
      told.reduce((sum, count) => sum + count, 0),
      2_500,
    )
    assert.equal(await unpublished(), 0)
    await until(() => heard.length >= 2_500, 'not all were heard', 10_000)
    assert.deepEqual(
      heard.toSorted((a, b) => a - b),
      ids.toSorted((a, b) => a - b),
    )
  })

  it('marks nothing that it could not tell, and tells it when Redis is back', async () => {
    await addEvents(10)
    const mute = { publish: () => Promise.reject(new Error('away')) } as unknown as Ground['redis']
    await assert.rejects(publishOnce({ ...ground.deps, redis: mute }), /away/)
    assert.equal(await unpublished(), 10)
    const publisher = startPublisher(ground.deps)
    await until(async () => (await unpublished()) === 0, 'not told', 10_000)
    await publisher.stop()
  })

  it('removes events that are old and told, and no others', async () => {
    await ground.sql`DELETE FROM outbox`
    const old = new Date(Date.now() - limits.ticketLifetimeMs - 60_000)
    await addEvents(3, old)
    await publishOnce(ground.deps)
    const untold = await addEvents(2, old)
    const fresh = await addEvents(2)
    await ground.sql`UPDATE outbox SET published_at = now() WHERE event_id = ANY(${fresh})`
    await sweepOutbox(ground.deps)
    const left = await ground.sql`SELECT event_id::int FROM outbox ORDER BY event_id`
    assert.deepEqual(
      left.map((row) => row['event_id']),
      [...untold, ...fresh],
    )
  })
})
