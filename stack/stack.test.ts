import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { UnexpectedEnd } from './part.ts'
import { birthOf, until } from './process.ts'
import { type StackOptions, startStack } from './stack.ts'
import { temporaryFolder } from './testing.ts'

const small: Pick<StackOptions, 'postgres'> = { postgres: { settings: { shared_buffers: '16MB' } } }

test('a part can be killed, paused and restarted alone; it keeps its address and its data', async (t) => {
  const ends: UnexpectedEnd[] = []
  const stack = await startStack({
    dir: temporaryFolder('stack'),
    only: ['redis', 'gateway'],
    redis: { appendfsync: 'always' },
    onUnexpectedEnd: (end) => ends.push(end),
  })
  t.after(() => stack.stop())
  const { endpoints, keys } = stack
  const ask = async (command: string[], patienceMs = 15_000) => {
    const response = await fetch(endpoints.gateway, {
      method: 'POST',
      headers: { authorization: `Bearer ${keys.gatewayToken}` },
      body: JSON.stringify(command),
      signal: AbortSignal.timeout(patienceMs),
    })
    return ((await response.json()) as { result?: unknown }).result
  }
  assert.equal(await ask(['SET', 'k', 'v']), 'OK')
  const { pid } = stack.part('redis')
  await stack.part('redis').kill()
  assert.equal(stack.part('redis').running(), false)
  await stack.part('redis').restart()
  assert.notEqual(stack.part('redis').pid, pid)
  await until(async () => (await ask(['GET', 'k'])) === 'v', 'the gateway did not find Redis again', 30_000)

  stack.part('gateway').pause()
  await assert.rejects(ask(['PING'], 1_000), { name: 'TimeoutError' })
  stack.part('gateway').resume()
  // Its question to Redis may have been open meanwhile: then the connection is made anew first.
  await until(async () => (await ask(['PING'])) === 'PONG', 'the gateway did not go on', 30_000)
  await stack.part('gateway').restart({ GATEWAY_TOKEN: 'another' })
  assert.equal(await ask(['PING']), undefined)
  assert.deepEqual(ends, [], 'an end that was asked for is no news')
  assert.throws(() => stack.part('core'), /no core/)
})

test('a part that ends by itself is reported with the end of its log', async (t) => {
  const ends: UnexpectedEnd[] = []
  const options = { dir: temporaryFolder('stack'), only: ['redis' as const] }
  const stack = await startStack({ ...options, onUnexpectedEnd: (end) => ends.push(end) })
  t.after(() => stack.stop())
  const client = new Redis(stack.endpoints.redis, { retryStrategy: null })
  client.on('error', () => undefined)
  await client.call('SHUTDOWN', 'NOW').catch(() => undefined)
  const [end] = await until(() => ends.length > 0 && ends, 'the end was not reported', 30_000)
  assert.deepEqual([end?.name, end?.exit.code], ['redis', 0])
  assert.match(end?.tail ?? '', /User requested shutdown/)
})

test('one stack at a time runs on a folder, and the second one is told which', async (t) => {
  const dir = temporaryFolder('stack')
  const stack = await startStack({ dir, only: ['redis'] })
  t.after(() => stack.stop())
  await assert.rejects(startStack({ dir, only: ['redis'] }), new RegExp(`process ${process.pid}`))
  await stack.stop()
  const again = await startStack({ dir, only: ['redis'] })
  await again.stop()
})

test('a required port that is busy is named, with its setting, and nothing is left running', async (t) => {
  const busy = createServer().listen(0, '127.0.0.1')
  t.after(() => busy.close())
  await new Promise((resolve) => busy.once('listening', resolve))
  const { port } = busy.address() as { port: number }
  const dir = temporaryFolder('stack')
  const ports = { gateway: { required: port, setting: 'GATEWAY_PORT' } }
  await assert.rejects(
    startStack({ dir, only: ['redis', 'gateway'], ports }),
    (error: Error) => error.message.includes(`Port ${port}`) && error.message.includes('GATEWAY_PORT'),
  )
  assert.equal(existsSync(join(dir, 'redis', 'redis.pid')), false)
  assert.equal(existsSync(join(dir, 'stack.lock')), false)
})

test('a part that does not come up is told with its own words, and the others are stopped', async () => {
  const dir = temporaryFolder('stack')
  const app = join(dir, 'app')
  mkdirSync(app)
  writeFileSync(join(app, 'wrangler.toml'), 'name = "w"\nmain = "w.ts"\ncompatibility_date = "2026-11-01"\n')
  writeFileSync(join(app, 'w.ts'), "throw new Error('no good')\nexport default {}\n")
  const options = { ...small, dir, only: ['redis' as const, 'edge' as const], home: join(dir, 'home') }
  await assert.rejects(startStack({ ...options, workerConfig: join(app, 'wrangler.toml') }), /no good/)
  assert.equal(existsSync(join(dir, 'redis', 'redis.pid')), false)
})

test('given servers are used and none of our own is started for them', async (t) => {
  const lender = await startStack({ ...small, dir: temporaryFolder('stack'), only: ['postgres', 'redis'] })
  t.after(() => lender.stop())
  const external = { databaseUrl: lender.endpoints.postgres, redisUrl: lender.endpoints.redis }
  const only: StackOptions['only'] = ['postgres', 'redis', 'gateway', 'core']
  const stack = await startStack({ dir: temporaryFolder('stack'), external, only })
  t.after(() => stack.stop())
  assert.deepEqual(Object.keys(stack.parts).sort(), ['core', 'gateway'])
  // A check that a stalled machine keeps waiting fails once: it is asked again.
  const ready = async () => (await fetch(`${stack.endpoints.core}/readyz`)).status === 200
  await until(ready, 'the core is not ready', 30_000)
  const pids = Object.values(stack.parts).map((part) => part.pid)
  await stack.stop()
  for (const pid of pids) assert.equal(birthOf(pid), undefined)
})

const linux = process.platform === 'linux' ? {} : { skip: 'needs /proc' }

test(
  'a paused PostgreSQL answers nobody, old connections neither, and goes on where it was',
  linux,
  async (t) => {
    const stack = await startStack({ ...small, dir: temporaryFolder('stack'), only: ['postgres'] })
    t.after(() => stack.stop())
    const sql = postgres(stack.endpoints.postgres, { max: 1 })
    t.after(() => sql.end({ timeout: 1 }))
    await sql`SELECT 1`
    stack.part('postgres').pause()
    let answered = false
    const asked = sql`SELECT 2 AS v`.then((rows) => {
      answered = true
      return rows[0]?.['v']
    })
    const { pid } = stack.part('postgres')
    await until(
      () => /^State:\s+T/m.test(readFileSync(`/proc/${pid}/status`, 'utf8')),
      'it did not pause',
      30_000,
    )
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.equal(answered, false)
    stack.part('postgres').resume()
    assert.equal(await asked, 2)
  },
)
