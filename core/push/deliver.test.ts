import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, it } from 'node:test'
import { importJWK, jwtVerify } from 'jose'
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
import { movable, openShop, type Shop } from '../webhooks/testing.ts'
import { startPushes } from './deliver.ts'
import { listSubscriptions, subscribe, unsubscribe } from './subscriptions.ts'
import { makeVapidKey, openBrowser } from './testing.ts'
import { makeVapid } from './vapid.ts'

const vapid = { privateKey: makeVapidKey(), subject: 'mailto:ops@shop.example' }

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
let deps: Deps
let forward: (ms: number) => void
/** The push service. */
let service: Shop
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
  const moved = movable(ground)
  forward = moved.forward
  deps = { ...moved.deps, env: { ...moved.deps.env, vapid } }
  service = await openShop()
  service.answer = (_, response) => response.writeHead(201).end()
})
afterEach(async () => {
  await Promise.all(running.map((part) => part.stop()))
  running = []
  await service.stop()
  await ground.sql`TRUNCATE push_subscriptions, push_deliveries, outbox`
})

function deliver(): void {
  running.push(startPushes({ ...deps, metrics: new Registry() }))
}

async function happen(userId: string, type = 'claim.delivered'): Promise<void> {
  await ground.sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    VALUES (${userId}, ${type}, '{"status":"DELIVERED","coupon_id":"c1"}', now())`
  await publishOnce(deps)
}

const count = async (table: string) =>
  ((await ground.sql`SELECT count(*)::int AS n FROM ${ground.sql(table)}`)[0] as { n: number }).n

describe('a push', () => {
  it('reaches the user’s browsers, readable by them alone, from a sender that the service can verify', async () => {
    const browsers = ['a', 'b'].map((name) => openBrowser(`${service.url}/${name}`))
    for (const { subscription } of browsers) await subscribe(deps, 'ann', subscription)
    await subscribe(deps, 'bob', openBrowser(`${service.url}/bob`).subscription)
    deliver()
    await happen('ann')
    await happen('ann', 'coupon.used')
    await until(
      async () => (await count('push_deliveries')) === 0 && service.got.length === 2,
      'not told',
      10_000,
    )
    for (const received of service.got) {
      const browser = browsers[received.path === '/a' ? 0 : 1]!
      assert.deepEqual(browser.read(received.body), {
        type: 'claim.delivered',
        status: 'DELIVERED',
        coupon_id: 'c1',
      })
      assert.doesNotMatch(String(received.body), /DELIVERED/)
      const { headers } = received
      assert.equal(headers['content-encoding'], 'aes128gcm')
      assert.ok(Number(headers['ttl']) > 86_000 && Number(headers['ttl']) <= 86_400)
      const [, token, key] = /^vapid t=([^,]+), k=(.+)$/.exec(headers['authorization']!)!
      assert.equal(key, makeVapid(vapid.privateKey, vapid.subject).publicKey)
      const point = Buffer.from(key!, 'base64url')
      const [x, y] = [point.subarray(1, 33), point.subarray(33)].map((half) => half.toString('base64url'))
      const publicKey = await importJWK({ kty: 'EC', crv: 'P-256', x: x!, y: y! }, 'ES256')
      const { payload } = await jwtVerify(token!, publicKey, { audience: service.url })
      assert.equal(payload.sub, vapid.subject)
      assert.ok(payload.exp! * 1000 - Date.now() < 86_400_000)
    }
  })

  it('that is not taken comes again later, under the topic that replaces it', async () => {
    await subscribe(deps, 'ann', openBrowser(`${service.url}/a`).subscription)
    let refusals = 2
    service.answer = (_, response) => response.writeHead(refusals-- > 0 ? 503 : 201).end()
    deliver()
    await happen('ann')
    const told = async () => {
      const [due] = await ground.sql<{ at: Date }[]>`SELECT next_attempt_at AS at FROM push_deliveries`
      if (due === undefined) return true
      // Not while it is on its way.
      const wait = due.at.getTime() - deps.clock()
      if (wait > 0 && wait < limits.deliveryLeaseMs / 2) forward(wait)
      return false
    }
    await until(told, 'it was never taken', 20_000)
    assert.equal(service.got.length, 3)
    assert.equal(new Set(service.got.map(({ headers }) => headers['topic'])).size, 1)
  })

  it('that nobody takes for a day is given up', async () => {
    await subscribe(deps, 'ann', openBrowser(`${service.url}/a`).subscription)
    service.answer = (_, response) => response.writeHead(500).end()
    await happen('ann')
    forward(limits.deliveryGiveUpMs)
    deliver()
    await until(async () => (await count('push_deliveries')) === 0, 'it is never given up', 10_000)
    assert.equal(await count('push_subscriptions'), 1)
  })
})

describe('without VAPID keys', () => {
  it('nothing is sent, and nothing piles up for subscriptions of earlier', async () => {
    await subscribe(deps, 'ann', openBrowser(`${service.url}/a`).subscription)
    await happen('ann')
    deps = { ...deps, env: { ...deps.env, vapid: undefined } }
    deliver()
    await until(async () => (await count('push_deliveries')) === 0, 'it piles up', 10_000)
    assert.equal(service.got.length, 0)
  })
})

describe('a subscription', () => {
  it('that the service says is no more is removed, with what was to be told to it', async () => {
    for (const status of [404, 410]) {
      await subscribe(deps, 'ann', openBrowser(`${service.url}/${status}`).subscription)
      service.answer = (_, response) => response.writeHead(status).end()
      await happen('ann')
      await happen('ann')
    }
    deliver()
    await until(async () => (await count('push_subscriptions')) === 0, 'it stays', 10_000)
    await until(async () => (await count('push_deliveries')) === 0, 'its deliveries stay', 10_000)
  })

  it('that has expired hears nothing and is removed', async () => {
    const { subscription } = openBrowser(`${service.url}/a`)
    await subscribe(deps, 'ann', { ...subscription, expirationTime: deps.clock() + 60_000 })
    await happen('ann')
    forward(60_001)
    deliver()
    await until(async () => (await count('push_subscriptions')) === 0, 'it stays', 10_000)
    await until(async () => (await count('push_deliveries')) === 0, 'its deliveries stay', 10_000)
    assert.equal(service.got.length, 0)
  })

  it('is the same when it comes again, and its browser’s next user takes it over (case-J6)', async () => {
    const { subscription } = openBrowser(`${service.url}/a`)
    const first = await subscribe(deps, 'ann', subscription)
    assert.deepEqual(await subscribe(deps, 'ann', subscription), first)
    await subscribe(deps, 'bob', subscription)
    assert.deepEqual(await listSubscriptions(deps, 'ann'), [])
    assert.equal((await listSubscriptions(deps, 'bob')).length, 1)
    assert.equal(await unsubscribe(deps, 'ann', first.id), false)
    assert.equal(await unsubscribe(deps, 'bob', first.id), true)
    assert.equal(await unsubscribe(deps, 'bob', 'nonsense'), false)
  })

  it('beyond the bound takes the place of the user’s oldest', async () => {
    const ids: string[] = []
    for (let i = 0; i <= limits.pushSubscriptionsPerUserMax; i++) {
      ids.push((await subscribe(deps, 'ann', openBrowser(`${service.url}/${i}`).subscription)).id)
      forward(1_000)
    }
    const kept = (await listSubscriptions(deps, 'ann')).map(({ id }) => id)
    assert.deepEqual(kept, ids.slice(1).reverse())
  })

  it('must be at a browser’s push service, with keys that can be encrypted to', async () => {
    const strict = { ...deps, env: { ...deps.env, outboundInsecure: false } }
    const { keys } = openBrowser('').subscription
    for (const endpoint of [
      ...[
        'https://shop.example/x',
        'https://fcm.googleapis.com.shop.example/',
        'http://fcm.googleapis.com/x',
      ],
      ...['https://notfcm.googleapis.com/x', 'https://fcm.googleapis.com:8443/x', 'https://127.0.0.1/', 'x'],
    ])
      await assert.rejects(subscribe(strict, 'ann', { endpoint, keys }), /Correct endpoint/, endpoint)
    for (const endpoint of [
      'https://fcm.googleapis.com/fcm/send/a',
      'https://wns2-par02p.notify.windows.com/w/a',
    ])
      assert.ok((await subscribe(strict, 'ann', { endpoint, keys })).id)
    const wrong = { ...keys, p256dh: keys.auth }
    await assert.rejects(
      subscribe(strict, 'ann', { endpoint: 'https://web.push.apple.com/a', keys: wrong }),
      /Correct keys/,
    )
  })
})
