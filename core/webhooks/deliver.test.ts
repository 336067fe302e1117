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
import { startDrain } from '../claim/drain.ts'
import { claimFor, type Ground, openCampaign, openGround } from '../claim/testing.ts'
import type { Deps, Running } from '../deps.ts'
import { publishOnce } from '../notify/publisher.ts'
import { disableEndpoint, enableEndpoint, rotateSecret } from './change.ts'
import { startWebhooks } from './deliver.ts'
import { readEndpoint, readSecret } from './read.ts'
import { resendDeliveries } from './resend.ts'
import {
  happen,
  isSigned,
  makeEndpoint,
  movable,
  openShop,
  operator,
  type Shop,
  statesOf,
} from './testing.ts'

const hour = 3_600_000
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

/** Starts a process's worth of delivering. @returns its metrics */
function deliver(): Registry {
  const metrics = new Registry()
  running.push(startWebhooks({ ...deps, metrics }))
  return metrics
}

const endpoint = (url = `${shop.url}/hook`, types: string[] = []) => makeEndpoint(deps, url, types)

const versionOf = async (endpointId: string) => (await readEndpoint(deps.db.admin.orm, endpointId)).version

const changeOf = async (endpointId: string) => ({
  endpointId,
  expectedVersion: await versionOf(endpointId),
  reason: undefined,
})

/** Lets time pass until a condition holds: to the next attempt, whenever none is on its way. */
async function passTime(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const look = async () => {
    if (await holds()) return true
    const [next] = await ground.sql<{ at: Date }[]>`
      SELECT min(next_attempt_at) AS at FROM webhook_deliveries w WHERE state = 'PENDING'
      HAVING bool_and(attempts = (SELECT count(*) FROM webhook_attempts a WHERE a.event_id = w.event_id))`
    const ms = (next?.at.getTime() ?? 0) - deps.clock()
    if (ms > 0) forward(ms)
    return false
  }
  await until(look, what, 30_000)
}

/** What was recorded is counted a moment after it can be read. */
const untilCounted = (metrics: Registry, line: RegExp) =>
  until(async () => line.test(await metrics.metrics()), `not counted: ${line}`, 10_000)

describe('a webhook', () => {
  it('tells a shop of a claim’s result, signed, with who it is about', async () => {
    const { secret } = await endpoint(undefined, ['claim.delivered'])
    deliver()
    const bucket = await openCampaign(ground, { quota: 5 })
    const drain = startDrain({ ...deps, metrics: new Registry() }, { consumer: 'webhooks' })
    running.push(drain)
    const [accepted] = await claimFor(ground, bucket, ['ann'])
    await until(async () => (await publishOnce(deps)) > 0, 'no event', 10_000)
    await until(() => shop.got.length > 0, 'nothing came', 10_000)
    const [received] = shop.got
    assert.ok(isSigned(received!, secret))
    assert.ok(!isSigned(received!, `whsec_${Buffer.alloc(32).toString('base64')}`))
    assert.match(String(received!.headers['webhook-id']), /^evt_\d+$/)
    const seconds = Number(received!.headers['webhook-timestamp'])
    assert.ok(Math.abs(seconds - Date.now() / 1000) < 60)
    const { type, timestamp, data } = JSON.parse(String(received!.body))
    assert.equal(type, 'claim.delivered')
    assert.match(timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.deepEqual([data.user_id, data.request_id, data.status], ['ann', accepted!.requestId, 'DELIVERED'])
    assert.ok(data.coupon_id)
  })

  it('goes to those who want its type, and to no disabled endpoint', async () => {
    const other = await endpoint(`${shop.url}/other`, ['claim.rejected'])
    await endpoint(`${shop.url}/all`)
    const off = await endpoint(`${shop.url}/off`)
    await disableEndpoint(operator(deps), await changeOf(off.id))
    await happen(deps, 1)
    deliver()
    await until(() => shop.got.length > 0, 'nothing came', 10_000)
    assert.deepEqual(
      (await ground.sql`SELECT endpoint_id FROM webhook_deliveries`).filter(
        ({ endpoint_id }) => endpoint_id === other.id || endpoint_id === off.id,
      ),
      [],
    )
    assert.deepEqual(
      shop.got.map(({ path }) => path),
      ['/all'],
    )
  })

  it('that is not taken comes again, later each time, with the same id and bytes, and is recorded', async () => {
    const { id, secret } = await endpoint()
    let refusals = 3
    shop.answer = (_, response) => response.writeHead(refusals-- > 0 ? 500 : 200).end()
    await happen(deps, 1)
    const metrics = deliver()
    await passTime(async () => (await statesOf(deps))[0] === 'DELIVERED', 'it was never delivered')
    assert.equal(shop.got.length, 4)
    assert.equal(new Set(shop.got.map(({ headers }) => headers['webhook-id'])).size, 1)
    assert.equal(new Set(shop.got.map(({ body }) => String(body))).size, 1)
    assert.ok(shop.got.every((one) => isSigned(one, secret)))
    const attempts = await ground.sql`SELECT attempt, status, error FROM webhook_attempts ORDER BY attempt`
    assert.deepEqual(
      attempts.map(({ attempt, status, error }) => [attempt, status, error]),
      [
        [1, 500, 'It answered 500.'],
        [2, 500, 'It answered 500.'],
        [3, 500, 'It answered 500.'],
        [4, 200, null],
      ],
    )
    assert.equal((await readEndpoint(deps.db.admin.orm, id)).failingSince, null)
    await untilCounted(metrics, /webhook_attempts_total\{outcome="failed"\} 3\n/)
  })

  it('is given up after a day, and sent again by hand under its id', async () => {
    const { id } = await endpoint()
    shop.answer = (_, response) => response.writeHead(500).end()
    const began = deps.clock()
    await happen(deps, 1)
    const metrics = deliver()
    await passTime(async () => (await statesOf(deps))[0] === 'FAILED', 'it was never given up')
    assert.ok(deps.clock() - began >= limits.deliveryGiveUpMs)
    await untilCounted(metrics, /webhook_attempts_total\{outcome="gave_up"\} 1\n/)
    const tried = shop.got.length
    assert.ok(tried >= 8, `${tried} attempts`)
    shop.answer = (_, response) => response.writeHead(200).end()
    const webhookId = String(shop.got[0]!.headers['webhook-id'])
    const failedSince = new Date(began - hour).toISOString()
    const again = await resendDeliveries(operator(deps), { endpointId: id, reason: 'fixed', failedSince })
    assert.deepEqual(again.answer, { queued: 1 })
    await until(async () => (await statesOf(deps))[0] === 'DELIVERED', 'it was not sent again', 10_000)
    // One that was delivered can be sent again too.
    await resendDeliveries(operator(deps), { endpointId: id, reason: undefined, webhookId })
    await until(() => shop.got.length === tried + 2, 'it was not sent again', 10_000)
    assert.equal(new Set(shop.got.map(({ headers }) => headers['webhook-id'])).size, 1)
  })
})

describe('an endpoint', () => {
  it('that takes nothing for two days is disabled, audited and counted; enabled, it hears what happens from then on', async () => {
    const { id } = await endpoint()
    shop.answer = (_, response) => response.writeHead(503).end()
    await happen(deps, 1)
    const metrics = deliver()
    await passTime(async () => (await statesOf(deps))[0] === 'FAILED', 'it was never given up')
    forward(limits.webhookDisableAfterMs - limits.deliveryGiveUpMs)
    await happen(deps, 1)
    const state = async () => readEndpoint(deps.db.admin.orm, id)
    // A failure after quiet days proves nothing yet: this delivery too has its whole day.
    await until(
      async () => (await ground.sql`SELECT 1 FROM webhook_attempts WHERE attempt = 1`).length === 2,
      'no attempt',
      10_000,
    )
    assert.equal((await state()).state, 'ENABLED')
    await passTime(async () => (await state()).state === 'DISABLED', 'it was never disabled')
    assert.equal((await state()).disabledReason, 'failing')
    await untilCounted(metrics, /webhook_endpoints_disabled_total 1\n/)
    const audit = await ground.sql`
      SELECT actor, reason FROM audit_log WHERE target = ${id} AND action = 'webhook.disable'`
    assert.deepEqual({ ...audit[0] }, { actor: 'tidegate', reason: 'failing' })
    await assert.rejects(
      resendDeliveries(operator(deps), { endpointId: id, reason: undefined, webhookId: 'evt_1' }),
      /disabled/,
    )
    const sent = shop.got.length
    shop.answer = (_, response) => response.writeHead(200).end()
    await happen(deps, 1)
    await enableEndpoint(operator(deps), await changeOf(id))
    assert.equal((await state()).failingSince, null)
    await happen(deps, 1)
    await until(async () => (await statesOf(deps)).includes('DELIVERED'), 'it hears nothing', 10_000)
    // What happened while it was disabled it never hears of.
    assert.equal(shop.got.length, sent + 1)
    assert.equal((await statesOf(deps)).length, 3)
  })

  it('that says it is gone is disabled at once', async () => {
    const { id } = await endpoint()
    shop.answer = (_, response) => response.writeHead(410).end()
    await happen(deps, 1)
    deliver()
    const state = async () => readEndpoint(deps.db.admin.orm, id)
    await until(async () => (await state()).disabledReason === 'gone', 'it was never disabled', 10_000)
  })

  it('with a new secret gets both signatures for a day, then the new one only', async () => {
    const { id, secret } = await endpoint()
    await rotateSecret(operator(deps), await changeOf(id))
    const renewed = (await readSecret(deps.db.admin.orm, id, await versionOf(id)))!
    assert.notEqual(renewed, secret)
    deliver()
    await happen(deps, 1)
    await until(() => shop.got.length === 1, 'nothing came', 10_000)
    assert.ok(isSigned(shop.got[0]!, secret) && isSigned(shop.got[0]!, renewed))
    // Else it is a day late by now, and comes again.
    await until(async () => (await statesOf(deps))[0] === 'DELIVERED', 'it is not recorded', 10_000)
    forward(limits.webhookSecretOverlapMs + 1)
    await happen(deps, 1)
    await until(() => shop.got.length === 2, 'nothing came', 10_000)
    assert.ok(!isSigned(shop.got[1]!, secret) && isSigned(shop.got[1]!, renewed))
  })

  it('that answers slowly keeps no other waiting', async () => {
    const slow = await openShop()
    try {
      slow.answer = () => undefined
      await endpoint(slow.url)
      await endpoint()
      await happen(deps, 3 * limits.deliveriesPerEndpointMax)
      deliver()
      await until(
        () => shop.got.length === 3 * limits.deliveriesPerEndpointMax,
        'the slow one holds the other up',
        10_000,
      )
      assert.ok(slow.got.length <= limits.deliveriesPerEndpointMax)
    } finally {
      await slow.stop()
    }
  })

  it('hears nothing by a redirect to elsewhere', async () => {
    await endpoint()
    shop.answer = ({ path }, response) =>
      response.writeHead(path === '/hook' ? 302 : 200, { Location: `${shop.url}/elsewhere` }).end()
    await happen(deps, 1)
    deliver()
    await until(
      async () => (await ground.sql`SELECT 1 FROM webhook_attempts`).length > 0,
      'no attempt',
      10_000,
    )
    const [attempt] = await ground.sql`SELECT status, error FROM webhook_attempts`
    assert.deepEqual(
      { ...attempt },
      { status: 302, error: 'It answered with a redirect, which is not followed.' },
    )
    assert.deepEqual(
      shop.got.map(({ path }) => path),
      ['/hook'],
    )
  })
})
