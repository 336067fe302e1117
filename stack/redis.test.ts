import assert from 'node:assert/strict'
import { readdirSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findProgram } from './host.ts'
import { startRedis } from './redis.ts'
import { ensureRedis } from './redis-install.ts'
import { redisBinary, temporaryFolder } from './testing.ts'

const apt = findProgram(['apt-get']) ? {} : { skip: 'needs apt' }

test('without a Redis on the machine, one is fetched, without root and without installing it', {
  ...apt,
  timeout: 400_000,
}, async (t) => {
  const home = join(temporaryFolder('program'), 'redis program')
  const said: string[] = []
  const fetched = () => ensureRedis({ home, folders: [], progress: (line) => said.push(line) })
  // An archive that is being renewed, or can't be reached for a moment, is not ours to answer for.
  const binary = await fetched().catch(async (error: Error) => {
    assert.match(error.message, /^Redis could not be fetched: .*apt-get .* failed/s)
    await pause(20_000)
    said.length = 0
    return fetched()
  })
  assert.equal(binary, join(home, 'bin', 'redis-server'))
  assert.equal(said.length, 1)
  const redis = await startRedis({ binary, dir: temporaryFolder('redis') })
  t.after(() => redis.kill())
  const client = new Redis(redis.url)
  assert.equal(await client.eval("return redis.call('PING')['ok']", 0), 'PONG')
  client.disconnect()
  assert.equal(await ensureRedis({ home, folders: [] }), binary)
  assert.deepEqual(readdirSync(join(home, '..')), ['redis program'])
})

test('with no Redis and no package manager, the error says what to do', async () => {
  const nothing = { home: temporaryFolder('none'), folders: [], managers: [] }
  await assert.rejects(ensureRedis(nothing), /Install Redis 7.*REDIS_URL/)
})

test('a busy port is avoided, and a server that is not ours is never taken for ours', async (t) => {
  const binary = await redisBinary()
  const first = await startRedis({ binary, dir: temporaryFolder('redis') })
  t.after(() => first.kill())
  const second = await startRedis({ binary, dir: temporaryFolder('redis'), port: first.port })
  t.after(() => second.kill())
  assert.notEqual(second.port, first.port)
  const mute = createServer().listen(0, '127.0.0.1')
  t.after(() => mute.close())
  await new Promise((resolve) => mute.once('listening', resolve))
  const { port } = mute.address() as { port: number }
  const third = await startRedis({ binary, dir: temporaryFolder('redis'), port })
  t.after(() => third.kill())
  assert.notEqual(third.port, port)
})

test('the data folder is closed to others, and a wrong setting is told with the server’s own words', async () => {
  const binary = await redisBinary()
  const dir = temporaryFolder('redis')
  const start = startRedis({ binary, dir, args: ['--no-such-setting', '1'] })
  await assert.rejects(start, /no-such-setting/)
  assert.equal(statSync(dir).mode & 0o777, 0o700)
})
