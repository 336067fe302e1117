import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { Registry } from 'prom-client'
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
import type { Deps, Running } from '../deps.ts'
import { publishOnce } from '../notify/publisher.ts'
import { startWebhooks } from './deliver.ts'
import { takeDue } from './due.ts'
import { happen, makeEndpoint, movable, openShop, type Shop, statesOf } from './testing.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
let deps: Deps
let forward: (ms: number) => void
let shop: Shop
let running: Running[] = []
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})
beforeEach(async () => {
  ;({ deps, forward } = movable(ground))
  shop = await openShop()
})
afterEach(async () => {
  await Promise.all(running.map((part) => part.stop()))
  running = []
  await shop.stop()
  await ground.sql`TRUNCATE webhook_endpoints, webhook_secrets, webhook_deliveries, webhook_attempts, outbox`
})

function deliver(): void {
  running.push(startWebhooks({ ...deps, metrics: new Registry() }))
}

describe('processes', () => {
  it('that deliver at the same time send each event once', async () => {
    await makeEndpoint(deps, shop.url)
    await happen(deps, 200)
    deliver()
    deliver()
    await until(
      async () => (await statesOf(deps)).every((state) => state === 'DELIVERED'),
      'not all came',
      20_000,
    )
    const ids = shop.got.map(({ headers }) => headers['webhook-id'])
    assert.deepEqual([ids.length, new Set(ids).size], [200, 200])
  })

  it('that die with a delivery in hand leave it to others, under the same id', async () => {
    await makeEndpoint(deps, shop.url)
    await happen(deps, 1)
    const [taken] = await takeDue(deps, 10, new Map())
    assert.equal(taken!.attempt, 1)
    assert.equal((await takeDue(deps, 10, new Map())).length, 0, 'two have it')
    deliver()
    forward(limits.deliveryLeaseMs + 1)
    await until(() => shop.got.length === 1, 'nobody took it over', 10_000)
    assert.equal(shop.got[0]!.headers['webhook-id'], `evt_${taken!.event_id}`)
  })

  it('that die between telling and marking tell again, and a shop still gets each event once', async () => {
    await makeEndpoint(deps, shop.url)
    await ground.sql`INSERT INTO outbox (user_id, type, payload, created_at) VALUES ('ann', 'coupon.used', '{}', now())`
    const told: string[] = []
    const dying = new Proxy(deps.redis, {
      get: (target, name) =>
        name !== 'publish'
          ? Reflect.get(target, name)
          : async (channel: string, message: string) => {
              told.push(message)
              await target.publish(channel, message)
              await ground.sql`
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction'`
            },
    })
    await assert.rejects(publishOnce({ ...deps, redis: dying }))
    assert.equal((await ground.sql`SELECT 1 FROM outbox WHERE published_at IS NULL`).length, 1)
    assert.deepEqual(await statesOf(deps), [])
    // The dead one's locks go a moment after its connection.
    await until(async () => (await publishOnce(deps)) === 1, 'it is not told again', 10_000)
    assert.equal(told.length, 1)
    deliver()
    await until(() => shop.got.length === 1, 'nothing came', 10_000)
    assert.equal((await statesOf(deps)).length, 1)
  })
})
