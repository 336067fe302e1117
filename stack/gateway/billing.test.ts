import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import { Redis } from 'ioredis'
import { until } from '../process.ts'
import { type Fixture, startFixture } from './fixture.ts'

let fixture: Fixture
let direct: Redis
before(async () => {
  fixture = await startFixture()
  direct = new Redis(fixture.redis.url)
  direct.on('error', () => undefined)
})
after(async () => {
  direct.disconnect()
  await fixture.end()
})
beforeEach(async () => {
  await fixture.call('/_gateway/stats/reset', '')
})

const stats = async () => (await fixture.call('/_gateway/stats')).body

test('a script costs its call and every command inside it', async () => {
  const script = "for i = 1, 5 do redis.call('HSET', KEYS[1], i, i) end return redis.call('HLEN', KEYS[1])"
  await fixture.call('/', ['EVAL', script, 1, 'hash'])
  await fixture.call('/', ['EVAL', script, 1, 'hash'])
  assert.deepEqual(await stats(), {
    http_requests: 2,
    commands_sent: 2,
    billed_commands: 14,
    by_command: { hset: 10, eval: 2, hlen: 2 },
  })
})

test('each command of a pipeline and a transaction is billed, MULTI and EXEC with them', async () => {
  await fixture.call('/pipeline', [
    ['SET', 'a', 1],
    ['GET', 'a'],
    ['BLPOP', 'a', 1],
  ])
  await fixture.call('/multi-exec', [
    ['SET', 'a', 1],
    ['GET', 'a'],
  ])
  const { http_requests, commands_sent, billed_commands, by_command } = await stats()
  assert.deepEqual([http_requests, commands_sent, billed_commands], [2, 5, 6])
  assert.deepEqual(by_command, { set: 2, get: 2, multi: 1, exec: 1 })
})

test('clients that connect past the gateway are billed too', async () => {
  await direct.set('a', 1)
  assert.deepEqual((await stats()).by_command, { set: 1 })
})

test('neither what Upstash gives free nor what the gateway asks for itself is billed', async () => {
  for (const path of ['/ping', '/info', '/command/count', '/config/get/maxmemory']) await fixture.call(path)
  for (let i = 0; i < 5; i++) await stats()
  const { http_requests, billed_commands } = await stats()
  assert.deepEqual([http_requests, billed_commands], [4, 0])
})

test('commands that were refused before they ran cost nothing', async () => {
  await fixture.call('/get')
  await fixture.call('/nosuch')
  await fixture.call('/', ['BLPOP', 'a', 0])
  assert.equal((await stats()).billed_commands, 0)
})

test('a reset starts at zero and says so', async () => {
  await fixture.call('/set/a/1')
  const zero = { http_requests: 0, commands_sent: 0, billed_commands: 0, by_command: {} }
  assert.deepEqual((await fixture.call('/_gateway/stats/reset', '')).body, zero)
  assert.deepEqual(await stats(), zero)
  assert.equal((await fixture.call('/_gateway/nothing')).status, 404)
})

test('counters reset behind the back of the gateway never shrink the bill', async () => {
  for (let i = 0; i < 5; i++) await fixture.call('/set/a/1')
  assert.equal((await stats()).billed_commands, 5)
  await direct.config('RESETSTAT')
  assert.equal((await stats()).billed_commands, 5)
  await fixture.call('/set/a/1')
  await fixture.call('/get/a')
  assert.deepEqual((await stats()).by_command, { set: 6, get: 1 })
})

test('a restart of Redis never shrinks the bill, though it counts more than before', async () => {
  await fixture.call('/set/a/1')
  assert.equal((await stats()).billed_commands, 1)
  await fixture.redis.restart()
  // Retried: the first requests may meet the gateway before it has noticed.
  const set = async () => (await fixture.call('/set/a/1')).status === 200
  for (let i = 0; i < 3; i++) await until(set, 'the gateway did not find Redis again', 30_000)
  const { body } = await fixture.call('/_gateway/stats')
  assert.equal(body.by_command.set, 4)
})
