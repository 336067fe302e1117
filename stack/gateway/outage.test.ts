import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Redis } from 'ioredis'
import { until } from '../process.ts'
import { discard, freshRedis } from '../testing.ts'
import { startFixture } from './fixture.ts'
import { startGateway } from './server.ts'

const post = async (url: string, command: unknown[]) => {
  const init = {
    method: 'POST',
    headers: { authorization: 'Bearer test-token' },
    body: JSON.stringify(command),
  }
  const response = await fetch(url, init)
  return {
    status: response.status,
    headers: response.headers,
    body: (await response.json()) as { error?: string; result?: unknown },
  }
}
/** For whatever happens in its own time; what must be quick is measured by itself. */
const patienceMs = 30_000
const serves = (url: string) => async () => (await post(url, ['SET', 'probe', 1])).status === 200

test('while Redis is dead each request is told so at once, and works again when Redis is back', async (t) => {
  const log: string[] = []
  // "At once" is long before a command that waits for its answer would give up.
  const commandTimeoutMs = 10_000
  const fixture = await startFixture({ commandTimeoutMs, log: (line) => log.push(line) })
  t.after(() => fixture.end())
  const { url, redis } = fixture
  for (let round = 0; round < 2; round++) {
    await redis.kill()
    await until(async () => (await post(url, ['PING'])).status === 503, 'the loss is noticed', patienceMs)
    const started = performance.now()
    const { status, headers, body } = await post(url, ['GET', 'x'])
    assert.ok(performance.now() - started < commandTimeoutMs / 3)
    assert.equal(status, 503)
    assert.equal(headers.get('retry-after'), '1')
    assert.match(body.error ?? '', /^UNAVAILABLE Redis is not reachable and nothing was sent/)
    assert.equal((await fixture.call('/_gateway/stats')).status, 503)
    await redis.restart()
    await until(serves(url), 'Redis is back', patienceMs)
  }
  assert.ok(log.length > 0 && log.length < 10, log.join('\n'))
})

test('scripts that died with Redis end in NOSCRIPT', async (t) => {
  const fixture = await startFixture()
  t.after(() => fixture.end())
  const source = "#!lua flags=allow-key-locking\nreturn 'ran'"
  const script = fixture.sdk().createScript<string>(source)
  assert.equal(await script.exec([], []), 'ran')
  await fixture.redis.restart()
  await until(serves(fixture.url), 'Redis is back', patienceMs)
  await assert.rejects(script.evalsha([], []), /NOSCRIPT No matching script/)
  assert.equal(await script.exec([], []), 'ran')
})

test('a stopped Redis is a timeout within the bound, then unavailable, and no answer goes to another caller', async (t) => {
  // Long enough for all twenty to be sent before the first is given up.
  const commandTimeoutMs = 1_500
  const fixture = await startFixture({ commandTimeoutMs })
  t.after(() => fixture.end())
  const { url, redis } = fixture
  // Connections that stand already: nobody's first answer waits for one.
  await Promise.all(Array.from({ length: 20 }, () => post(url, ['PING'])))
  process.kill(redis.pid(), 'SIGSTOP')
  const started = performance.now()
  const waiting = await Promise.all(Array.from({ length: 20 }, (_, i) => post(url, ['ECHO', `before-${i}`])))
  assert.ok(performance.now() - started < commandTimeoutMs + 5_000)
  for (const { status, body } of waiting) {
    assert.equal(status, 504)
    assert.match(body.error ?? '', /^TIMEOUT Redis did not answer in time: the command may have run/)
  }
  assert.equal((await post(url, ['PING'])).status, 503)
  process.kill(redis.pid(), 'SIGCONT')
  await until(serves(url), 'Redis goes on', patienceMs)
  const after = await Promise.all(Array.from({ length: 20 }, (_, i) => post(url, ['ECHO', `after-${i}`])))
  assert.deepEqual(
    after.map(({ body }) => body.result),
    after.map((_, i) => `after-${i}`),
  )
})

test('an answer that was lost on the way is told apart from a command that was not sent', async (t) => {
  // Accepts the log-in, refuses the gateway's own questions, and hangs up on the first real command.
  const hangUp = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.on('data', (chunk) => {
      if (String(chunk).includes('ECHO')) socket.destroy()
      else socket.write(String(chunk).includes('PING') ? '+OK\r\n+PONG\r\n' : '-ERR unknown command\r\n')
    })
  })
  await once(hangUp.listen(0, '127.0.0.1'), 'listening')
  t.after(() => hangUp.close())
  const { port } = hangUp.address() as { port: number }
  const gateway = await startGateway({ redisUrl: `redis://127.0.0.1:${port}`, token: 'test-token', port: 0 })
  t.after(() => gateway.close())
  const lost = await until(
    async () => {
      const answer = await post(gateway.url, ['ECHO', 'x'])
      return answer.status !== 503 && answer
    },
    'a command is sent',
    patienceMs,
  )
  assert.equal(lost.status, 502)
  assert.match(lost.body.error ?? '', /^REPLYLOST .* the command may have run/)
})

test('a gateway that starts before Redis serves as soon as Redis is there', async (t) => {
  const redis = await freshRedis({ appendfsync: 'off' })
  t.after(() => discard(redis))
  await redis.kill()
  const gateway = await startGateway({ redisUrl: redis.url, token: 'test-token', port: 0 })
  t.after(() => gateway.close())
  assert.equal((await post(gateway.url, ['PING'])).status, 503)
  await redis.restart()
  await until(serves(gateway.url), 'Redis is there', patienceMs)
})

test('a password and a database number in the URL of Redis are used, and a wrong password is named in the log', async (t) => {
  const redis = await freshRedis({ appendfsync: 'off' })
  t.after(() => discard(redis))
  const direct = new Redis(redis.url)
  await direct.call('ACL', 'SETUSER', 'gate', 'on', '>se/cret', '~*', '&*', '+@all')
  direct.disconnect()
  const { port } = redis
  const options = { token: 'test-token', port: 0 }
  const url = (login: string) => `redis://${login}@127.0.0.1:${port}/3`
  const gateway = await startGateway({ ...options, redisUrl: url('gate:se%2Fcret') })
  t.after(() => gateway.close())
  assert.deepEqual((await post(gateway.url, ['SET', 'in-three', 1])).body, { result: 'OK' })
  const other = await startGateway({ ...options, redisUrl: `redis://127.0.0.1:${port}` })
  t.after(() => other.close())
  assert.deepEqual((await post(other.url, ['EXISTS', 'in-three'])).body, { result: 0 })
  const log: string[] = []
  const refused = await startGateway({
    ...options,
    redisUrl: url('gate:wrong'),
    log: (line) => log.push(line),
  })
  t.after(() => refused.close())
  assert.equal((await post(refused.url, ['PING'])).status, 503)
  assert.match(log.join('\n'), /WRONGPASS/)
  assert.doesNotMatch(log.join('\n'), /wrong/)
})

test('the process says where it listens, serves, and ends when told to', async (t) => {
  const redis = await freshRedis({ appendfsync: 'off' })
  t.after(() => discard(redis))
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const env = { REDIS_URL: redis.url, GATEWAY_TOKEN: 'test-token', GATEWAY_PORT: '0' }
  const child = spawn(process.execPath, [main], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => child.kill('SIGKILL'))
  const [line] = await once(child.stdout, 'data')
  const { listening } = JSON.parse(String(line))
  assert.match(listening, /^http:\/\/127\.0\.0\.1:\d+$/)
  assert.deepEqual((await post(listening, ['PING'])).body, { result: 'PONG' })
  child.kill('SIGTERM')
  assert.deepEqual(await once(child, 'exit'), [0, null])
  const unconfigured = spawn(process.execPath, [main], { env: {}, stdio: ['ignore', 'ignore', 'pipe'] })
  const [complaint] = await once(unconfigured.stderr, 'data')
  assert.match(String(complaint), /REDIS_URL is not set/)
})
