import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { Ratelimit } from '@upstash/ratelimit'
import type { Redis } from '@upstash/redis'
import { until } from '../process.ts'
import { type Fixture, startFixture } from './fixture.ts'

/** What our code relies on when it talks to Upstash, driven by the SDKs that it uses. */

let fixture: Fixture
let redis: Redis
before(async () => {
  fixture = await startFixture({ strictKeys: true })
  redis = fixture.sdk()
})
after(() => fixture.end())

test('values come back as they were set: text, numbers, objects, Unicode, null', async () => {
  const values = ['plain', 'ü€😀\u0000\r\n"\\', 42, -1.5, true, { a: [1, { b: null }] }, ['x', 2], '']
  for (const [i, value] of values.entries()) {
    assert.equal(await redis.set(`value:${i}`, value), 'OK')
    assert.deepEqual(await redis.get(`value:${i}`), value)
  }
  assert.equal(await redis.get('value:none'), null)
  assert.equal(await redis.set('value:nx', 1, { nx: true, ex: 100 }), 'OK')
  assert.equal(await redis.set('value:nx', 2, { nx: true }), null)
  assert.ok((await redis.ttl('value:nx')) > 90)
})

test('a text that looks like a number or like OK comes back as text without automatic deserialization', async () => {
  const { Redis } = await import('@upstash/redis')
  const raw = new Redis({ url: fixture.url, token: fixture.token, automaticDeserialization: false })
  for (const text of ['12345678901234567890', '007', 'OK', 'null', '{"a":1}', 'T0s=']) {
    await raw.set('text', text)
    assert.equal(await raw.get('text'), text)
    assert.deepEqual(await raw.mget('text', 'text:none'), [text, null])
  }
})

test('the SDK works without base64 too', async () => {
  const { Redis } = await import('@upstash/redis')
  const plain = new Redis({ url: fixture.url, token: fixture.token, responseEncoding: false })
  await plain.set('plain', 'ü "quoted" \\ \u2028')
  assert.equal(await plain.get('plain'), 'ü "quoted" \\ \u2028')
})

test('hashes, lists, sets, sorted sets and streams', async () => {
  assert.equal(await redis.hset('hash', { a: 1, b: 'two', c: { three: 3 } }), 3)
  assert.deepEqual(await redis.hgetall('hash'), { a: 1, b: 'two', c: { three: 3 } })
  assert.deepEqual(await redis.hmget('hash', 'a', 'none'), { a: 1, none: null })
  assert.equal(await redis.hincrby('hash', 'a', 41), 42)
  assert.equal(await redis.rpush('list', 'a', 'b', 'c'), 3)
  assert.deepEqual(await redis.lrange('list', 0, -1), ['a', 'b', 'c'])
  await redis.sadd('set', 'x', 'y')
  assert.deepEqual((await redis.smembers('set')).sort(), ['x', 'y'])
  await redis.zadd('zset', { score: 1.5, member: 'a' }, { score: 2, member: 'b' })
  assert.deepEqual(await redis.zrange('zset', 0, -1, { withScores: true }), ['a', 1.5, 'b', 2])
  const id = await redis.xadd('stream', '*', { field: 'value' })
  assert.deepEqual(await redis.xrange('stream', '-', '+'), { [id]: { field: 'value' } })
})

test('a scan by cursor visits every key once', async () => {
  await redis.mset(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`scan:${i}`, i])))
  const seen = new Set<string>()
  let cursor = '0'
  do {
    const [next, keys] = await redis.scan(cursor, { match: 'scan:*', count: 50 })
    for (const key of keys) seen.add(key)
    cursor = next
  } while (cursor !== '0')
  assert.equal(seen.size, 500)
})

test('a pipeline answers each command in order, errors in their places', async () => {
  const pipeline = redis.pipeline().set('p', 1).incr('p').lpush('p', 'x').get('p')
  const results = await pipeline.exec({ keepErrors: true })
  assert.deepEqual(
    results.map(({ result }) => result),
    ['OK', 2, undefined, 2],
  )
  assert.match(results[2].error ?? '', /^WRONGTYPE/)
  await assert.rejects(redis.pipeline().set('p', 1).lpush('p', 'x').exec(), /Command 2 .* failed: WRONGTYPE/)
})

test('a transaction runs as one: no other command is seen inside', async () => {
  await redis.set('tx', 0)
  const others = Array.from({ length: 50 }, () => redis.incr('tx'))
  const inside = Array.from({ length: 50 }, () =>
    redis.multi().incr('tx').incr('tx').get<number>('tx').exec(),
  )
  for (const [first, second, third] of await Promise.all(inside)) {
    assert.equal(second, first + 1)
    assert.equal(third, second)
  }
  await Promise.all(others)
  assert.equal(await redis.get('tx'), 150)
})

test('a transaction with a command that cannot be queued changes nothing', async () => {
  const { status, body } = await fixture.call('/multi-exec', [['SET', 'discarded', 2], ['NOSUCH']])
  assert.equal(status, 400)
  assert.match(body.error, /^ERR unknown command 'NOSUCH'/)
  assert.equal(await redis.get('discarded'), null)
})

test('commands sent in the same turn travel as one pipeline', async () => {
  const client = fixture.sdk()
  const results = await Promise.all([
    client.set('auto', 7),
    client.incr('auto'),
    client.get('auto'),
    client.hgetall('none'),
  ])
  assert.deepEqual(results.slice(0, 2), ['OK', 8])
  const { body } = await fixture.call('/_gateway/stats')
  assert.ok(body.http_requests < body.commands_sent)
  await assert.rejects(client.lpush('auto', 'x'), /WRONGTYPE/)
})

test('a failing command throws with the words of Redis', async () => {
  await redis.set('word', 'x')
  await assert.rejects(redis.incr('word'), /ERR value is not an integer or out of range/)
  const { Redis } = await import('@upstash/redis')
  const stranger = new Redis({ url: fixture.url, token: 'wrong', retry: { retries: 0 } })
  await assert.rejects(stranger.get('word'), /WRONGPASS invalid or missing auth token/)
})

const SCRIPT = "return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}"

test('EVAL, SCRIPT LOAD, EXISTS, EVALSHA and their read-only forms', async () => {
  assert.deepEqual(await redis.eval(SCRIPT, ['eval'], ['ä']), ['eval', 'ä', 1])
  const digest = await redis.scriptLoad(SCRIPT)
  assert.equal(digest, createHash('sha1').update(SCRIPT).digest('hex'))
  assert.deepEqual(await redis.scriptExists(digest, 'f'.repeat(40)), [1, 0])
  assert.deepEqual(await redis.evalsha(digest, ['eval'], ['b']), ['eval', 'b', 2])
  assert.equal(await redis.evalRo("return redis.call('GET', KEYS[1])", ['eval'], []), 2)
  await assert.rejects(
    redis.evalRo(SCRIPT, ['eval'], ['x']),
    /Write commands are not allowed from read-only scripts/,
  )
})

test('createScript loads itself when Redis does not have it', async () => {
  const lines = `#!lua flags=allow-key-locking\nreturn redis.call('INCRBY', KEYS[1], ARGV[1])`
  for (const source of [lines, lines.slice(lines.indexOf('\n') + 1)]) {
    const script = redis.createScript<number>(source)
    await redis.scriptFlush()
    await redis.del('created')
    await assert.rejects(script.evalsha(['created'], ['5']), /NOSCRIPT/)
    assert.equal(await script.exec(['created'], ['5']), 5)
    assert.equal(await script.evalsha(['created'], ['5']), 10)
  }
  const readOnly = redis.createScript<number, true>(
    `#!lua flags=no-writes,allow-key-locking\nreturn redis.call('GET', KEYS[1])`,
    {
      readonly: true,
    },
  )
  assert.equal(await readOnly.exec(['created'], []), 10)
  assert.equal(await readOnly.evalshaRo(['created'], []), 10)
})

/** Windows begin at multiples of their length since 1970: none of this length begins while a test runs. */
const window = '10000 d'

for (const [name, limiter] of [
  ['fixedWindow', Ratelimit.fixedWindow(3, window)],
  ['slidingWindow', Ratelimit.slidingWindow(3, window)],
  ['tokenBucket', Ratelimit.tokenBucket(3, window, 3)],
] as const) {
  test(`@upstash/ratelimit ${name} allows up to its limit, then denies, and counts what remains`, async () => {
    await redis.scriptFlush()
    const ratelimit = new Ratelimit({
      redis,
      limiter,
      prefix: `limit:${name}`,
      analytics: false,
      ephemeralCache: false,
    })
    const remaining: number[] = []
    for (let i = 0; i < 3; i++) {
      const answer = await ratelimit.limit('user')
      assert.equal(answer.success, true)
      assert.equal(answer.reason, undefined)
      assert.ok(answer.reset > Date.now())
      remaining.push(answer.remaining)
    }
    assert.deepEqual(remaining, [2, 1, 0])
    const denied = await ratelimit.limit('user')
    assert.deepEqual([denied.success, denied.remaining, denied.limit], [false, 0, 3])
    assert.equal((await ratelimit.getRemaining('user')).remaining, 0)
    assert.equal((await ratelimit.limit('another')).success, true)
    await ratelimit.resetUsedTokens('user')
    assert.equal((await ratelimit.limit('user')).success, true)
  })
}

test('@upstash/ratelimit with a dynamic limit and analytics', async () => {
  const ratelimit = new Ratelimit({
    redis,
    limiter: Ratelimit.slidingWindow(10, window),
    prefix: 'limit:extras',
    analytics: true,
    dynamicLimits: true,
    ephemeralCache: false,
  })
  await ratelimit.setDynamicLimit({ limit: 1 })
  const answers = [await ratelimit.limit('friend'), await ratelimit.limit('friend')]
  assert.deepEqual(
    answers.map(({ success, limit }) => [success, limit]),
    [
      [true, 1],
      [false, 1],
    ],
  )
  await Promise.all(answers.map(({ pending }) => pending))
  // One key an hour: an hour may end between the two answers.
  const hours = (await redis.keys('limit:extras:events:*')).length
  assert.ok(hours === 1 || hours === 2, `${hours} keys`)
})

test('a subscriber gets the messages of its channel and of its pattern until it leaves', async () => {
  const received: unknown[] = []
  const subscriber = redis.subscribe<unknown>('news')
  const patterns = redis.psubscribe<unknown>('ne*')
  const ready: string[] = []
  subscriber.on('subscribe', () => ready.push('channel'))
  patterns.on('psubscribe', () => ready.push('pattern'))
  subscriber.on('message', ({ message }) => received.push(['channel', message]))
  patterns.on('pmessage', ({ pattern, channel, message }) => received.push([pattern, channel, message]))
  await until(() => ready.length === 2, 'both are subscribed', 30_000)
  assert.equal(await redis.publish('news', { text: 'a,b ü' }), 2)
  await until(() => received.length === 2, 'both got the message', 30_000)
  assert.deepEqual(received.sort(), [
    ['channel', { text: 'a,b ü' }],
    ['ne*', 'news', { text: 'a,b ü' }],
  ])
  await subscriber.unsubscribe()
  await patterns.unsubscribe()
  const none = async () => (await redis.publish('news', 'x')) === 0
  await until(none, 'the gateway unsubscribed when its callers left', 30_000)
})
