import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Bucket, logKey } from '../../lua/keys.ts'
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
import { uuid7 } from '../claim/uuid7.ts'
import type { Running } from '../deps.ts'
import { formatPosition, overlapMs, parsePosition } from './event.ts'
import { type Service, serveStreams } from './testing.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
let service: Service
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
  service = await serveStreams(ground)
})
after(async () => {
  await service.close()
  await ground.close()
  await discard(redis)
  await database.drop()
})

/** Runs a part for the length of some work. */
async function during<T>(part: Running, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } finally {
    await part.stop()
  }
}

let drains = 0
const drain = () => startDrain(ground.deps, { consumer: `drain-${++drains}` })

const untilDrained = (bucket: Bucket) =>
  until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)

async function claimOne(bucket: Bucket, userId: string): Promise<string> {
  const [accepted] = await claimFor(ground, bucket, [userId])
  return accepted!.requestId
}

async function tell(userId: string, payload: object, createdAt = new Date()): Promise<number> {
  const [row] = await ground.sql`
    INSERT INTO outbox (user_id, type, payload, created_at)
    VALUES (${userId}, 'coupon.used', ${ground.sql.json(payload as never)}, ${createdAt}) RETURNING event_id::int`
  return row!['event_id'] as number
}

describe('a claim’s stream', () => {
  it('says that it is processing, then the result, and ends (case-J8)', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const requestId = await claimOne(bucket, 'ann')
    const stream = await service.listen(`/v1/claims/${requestId}/events`, 'ann')
    const first = await stream.next('claim.processing')
    assert.deepEqual(first.data, { request_id: requestId, status: 'PROCESSING' })
    const result = await during(drain(), () => stream.next('claim.delivered'))
    await stream.ended
    const { coupon_id, valid_from, valid_until, ...rest } = result.data
    assert.deepEqual(rest, { request_id: requestId, status: 'DELIVERED', campaign_id: bucket.campaignId })
    const [coupon] = await ground.sql`SELECT * FROM coupons WHERE request_id = ${requestId}`
    assert.deepEqual(
      [coupon_id, valid_from, valid_until],
      [coupon!['coupon_id'], coupon!['valid_from'].toISOString(), coupon!['valid_to'].toISOString()],
    )
    assert.deepEqual(
      stream.events.map(({ type }) => type),
      ['claim.processing', 'claim.delivered'],
    )
  })

  it('that comes after the result gets it at once, and ends', async () => {
    const bucket = await openCampaign(ground, { quota: 0, gateStock: 1 })
    const requestId = await claimOne(bucket, 'bob')
    await during(drain(), () => untilDrained(bucket))
    const stream = await service.listen(`/v1/claims/${requestId}/events`, 'bob')
    await stream.ended
    assert.deepEqual(
      stream.events.map(({ type, data }) => [type, data['reason']]),
      [['claim.rejected', 'REJECTED_QUOTA']],
    )
  })

  it('of somebody else’s claim, or of none, is not there (case-J6)', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const requestId = await claimOne(bucket, 'carl')
    await during(drain(), () => untilDrained(bucket))
    const never = uuid7(Date.now())
    for (const [user, path] of [
      ['mallory', `/v1/claims/${requestId}`],
      ['mallory', `/v1/claims/${requestId}/events`],
      ['carl', `/v1/claims/${never}`],
      ['carl', `/v1/claims/${never}/events`],
      ['carl', '/v1/claims/nonsense'],
    ] as const) {
      const reply = await service.get(path, user)
      const body = (await reply.json()) as { code: string }
      assert.deepEqual([reply.status, body.code], [404, 'CLAIM_NOT_FOUND'], path)
    }
    assert.equal((await service.get(`/v1/claims/${requestId}`, 'carl')).status, 200)
  })
})

describe('a user’s stream', () => {
  it('begins with a snapshot, and tells what happens from then on', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const stream = await service.listen('/v1/me/events', 'dora')
    assert.deepEqual((await stream.next('snapshot')).data, { claims: [] })
    const requestId = await claimOne(bucket, 'dora')
    const result = await during(drain(), () => stream.next('claim.delivered'))
    assert.equal(result.data['request_id'], requestId)
    stream.hangUp()
    const again = await service.listen('/v1/me/events', 'dora')
    const { claims } = (await again.next('snapshot')).data as { claims: { status: string }[] }
    assert.deepEqual(
      claims.map(({ status }) => status),
      ['DELIVERED'],
    )
    again.hangUp()
  })

  it('resumed after a gap tells what happened in it (case-J3), to nobody else (case-J6)', async () => {
    const bucket = await openCampaign(ground, { quota: 5 })
    const stream = await service.listen('/v1/me/events', 'eve')
    const { id } = await stream.next('snapshot')
    stream.hangUp()
    await stream.ended
    await claimOne(bucket, 'eve')
    await during(drain(), () => untilDrained(bucket))
    const resumed = await service.listen('/v1/me/events', 'eve', id)
    const missed = await resumed.next('claim.delivered')
    assert.deepEqual(
      resumed.events.map(({ type }) => type),
      ['claim.delivered'],
    )
    const stranger = await service.listen('/v1/me/events', 'trudy', id)
    const next = await service.listen('/v1/me/events', 'eve', missed.id)
    await tell('eve', { mark: 1 })
    await tell('trudy', { mark: 2 })
    assert.deepEqual((await next.next('coupon.used')).data, { mark: 1 })
    assert.deepEqual((await stranger.next('coupon.used')).data, { mark: 2 })
    assert.equal(stranger.events.length, 1)
    for (const one of [resumed, stranger, next]) one.hangUp()
  })

  it('never skips an event that got its number early and was committed late', async () => {
    const late = await ground.sql.reserve()
    await late`BEGIN`
    await late`
      INSERT INTO outbox (user_id, type, payload, created_at) VALUES ('fay', 'coupon.used', '{"n":1}', now())`
    const second = await tell('fay', { n: 2 })
    const stream = await service.listen('/v1/me/events', 'fay')
    await stream.next('snapshot')
    const resumeAt = formatPosition({ eventId: second, atMs: Date.now() })
    stream.hangUp()
    await late`COMMIT`
    late.release()
    const resumed = await service.listen('/v1/me/events', 'fay', resumeAt)
    assert.deepEqual((await resumed.next('coupon.used')).data, { n: 1 })
    resumed.hangUp()
  })

  it('with a position that is malformed gets a snapshot, and with one that is too old a resync first (case-J5)', async () => {
    const now = Date.now()
    const old = formatPosition({ eventId: 1, atMs: now - limits.ticketLifetimeMs - 1_000 })
    for (const [position, expected] of [
      ['12; DROP', ['snapshot']],
      ['99999999999999999999-1', ['snapshot']],
      [old, ['resync', 'snapshot']],
    ] as const) {
      const stream = await service.listen('/v1/me/events', 'gil', position)
      await stream.next('snapshot')
      assert.deepEqual(
        stream.events.map(({ type }) => type),
        expected,
      )
      stream.hangUp()
    }
    const future = await service.listen(
      '/v1/me/events',
      'gil',
      formatPosition({ eventId: 7, atMs: now + 9e9 }),
    )
    await tell('gil', { seen: true })
    await future.next('coupon.used')
    future.hangUp()
  })

  it('is limited in number for each user, and the limit frees with each that goes', async () => {
    const open = await Promise.all(
      Array.from({ length: limits.sseConnectionsPerUserMax }, () => service.listen('/v1/me/events', 'hal')),
    )
    const refused = await service.get('/v1/me/events', 'hal')
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
    open[0]!.hangUp()
    await until(
      async () => {
        const reply = await service.get('/v1/me/events', 'hal')
        await reply.body?.cancel()
        return reply.status === 200
      },
      'the freed place stays taken',
      10_000,
    )
    for (const one of open) one.hangUp()
  })
})

describe('positions', () => {
  it('go through text unharmed, and nothing else does', () => {
    const position = { eventId: 12, atMs: 1_790_000_000_000 }
    assert.deepEqual(parsePosition(formatPosition(position)), position)
    for (const text of [undefined, '', '12', '-1-2', '1-2-3', '1-x', ' 1-2'])
      assert.equal(parsePosition(text), undefined)
    assert.ok(overlapMs > 10_000)
  })
})
