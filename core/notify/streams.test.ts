import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { connect as connectTcp } from 'node:net'
import { after, before, describe, it } from 'node:test'
import { Registry } from 'prom-client'
import { resultsChannel } from '../../lua/keys.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { type Ground, openGround } from '../claim/testing.ts'
import { encodeEvents } from './event.ts'
import { startHub } from './hub.ts'
import { startStreams } from './streams.ts'
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

describe('streams, when something is slow or gone', () => {
  it('drop a reader that does not read, instead of keeping its bytes', async () => {
    const target = new URL(service.url)
    const socket = connectTcp(Number(target.port), target.hostname)
    let closed = false
    socket.on('close', () => {
      closed = true
    })
    socket.on('error', () => undefined)
    const [name, value] = Object.entries(service.headersOf('ivy'))[0]!
    socket.write(`GET /v1/me/events HTTP/1.1\r\nHost: x\r\n${name}: ${value}\r\n\r\n`)
    await new Promise((resolve) => socket.once('data', resolve))
    socket.pause()
    const gauge = ground.deps.metrics.getSingleMetric('tidegate_streams_dropped_total')!
    const data = JSON.stringify({ text: 'x'.repeat(10_000) })
    const reader = await service.listen('/v1/me/events', 'ivy')
    await until(
      async () => {
        const event = {
          eventId: 1,
          createdAtMs: Date.now(),
          userId: 'ivy',
          requestId: null,
          type: 'big',
          data,
        }
        await ground.redis.publish(resultsChannel, encodeEvents([event, event, event]))
        return (await gauge.get()).values[0]!.value > 0
      },
      'it was never dropped',
      60_000,
    )
    socket.resume()
    await until(() => closed, 'the connection stayed', 10_000)
    // The same events to one who reads do no harm.
    const heard = reader.events.length
    await ground.sql`
      INSERT INTO outbox (user_id, type, payload, created_at) VALUES ('ivy', 'coupon.used', '{}', now())`
    await reader.next('coupon.used')
    assert.ok(heard > 1)
    reader.hangUp()
  })

  it('tell after a break of the subscription what was told during it', async () => {
    const stream = await service.listen('/v1/me/events', 'jon')
    await stream.next('snapshot')
    const clients = (await ground.redis.client('LIST', 'TYPE', 'PUBSUB')) as string
    const id = /^id=(\d+)/.exec(clients)![1]!
    // Marked as published, as by a publisher whose message went nowhere: nobody tells it but who looks after a break.
    // Before the break, since the subscription may stand again before a slow insert is there.
    await ground.sql`
      INSERT INTO outbox (user_id, type, payload, created_at, published_at)
      VALUES ('jon', 'coupon.used', '{"missed":true}', now(), now())`
    await ground.redis.client('KILL', 'ID', id)
    assert.deepEqual((await stream.next('coupon.used')).data, { missed: true })
    stream.hangUp()
  })

  it('beat while nothing happens, and end at the end of their life', async () => {
    const { deps } = ground
    const hub = startHub({ ...deps })
    const own = startStreams({ ...deps, metrics: new Registry() }, hub, { lifetimeMs: 300 })
    const server = createServer((request, response) => {
      void own.open({ response, userId: request.url!, httpRequestId: 'test-request' }, async (stream) => {
        stream.tell('hello', '{}', { eventId: 0, atMs: 1 })
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    const response = await fetch(`http://127.0.0.1:${port}/kim`)
    assert.match(await response.text(), /^retry: \d+\n\nid: 0-1\nevent: hello\ndata: \{\}\n\n$/)
    await Promise.all([own.stop(), hub.stop()])
    server.close()
  })

  it('all end when the part stops', async () => {
    const stream = await service.listen('/v1/me/events', 'lea')
    await stream.next('snapshot')
    await service.streams.stop()
    await stream.ended
  })
})
