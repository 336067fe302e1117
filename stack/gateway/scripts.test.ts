import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, test } from 'node:test'
import { Redis } from 'ioredis'
import { type Fixture, startFixture } from './fixture.ts'
import { startGateway } from './server.ts'

let fixture: Fixture
let direct: Redis
before(async () => {
  fixture = await startFixture({ strictKeys: true })
  direct = new Redis(fixture.redis.url)
})
after(async () => {
  direct.disconnect()
  await fixture.end()
})

const SHEBANG = '#!lua flags=allow-key-locking\n'
const INCREMENT = `${SHEBANG}return redis.call('INCR', KEYS[1])`
const sha1 = (text: string) => createHash('sha1').update(text).digest('hex')
const run = async (...command: unknown[]) => (await fixture.call('/', command)).body

test('a key-locking script is known under the digest of what the caller sent', async () => {
  assert.deepEqual(await run('EVALSHA', sha1(INCREMENT), 1, 'n'), {
    error: 'NOSCRIPT No matching script. Please use EVAL.',
  })
  assert.deepEqual(await run('EVAL', INCREMENT, 1, 'n'), { result: 1 })
  assert.deepEqual(await run('EVALSHA', sha1(INCREMENT), 1, 'n'), { result: 2 })
  assert.deepEqual(await run('evalsha', sha1(INCREMENT).toUpperCase(), 1, 'n'), { result: 3 })
  assert.deepEqual(await run('SCRIPT', 'EXISTS', sha1(INCREMENT)), { result: [1] })
  const other = `${INCREMENT} -- another`
  assert.deepEqual(await run('SCRIPT', 'LOAD', other), { result: sha1(other) })
  assert.match((await fixture.call('/script/load', `${other}\n(`)).body.error, /^ERR Error compiling script/)
  assert.deepEqual((await fixture.call('/script/load', other)).body, { result: sha1(other) })
})

test('pipelines and transactions know scripts the same way', async () => {
  const script = `${INCREMENT} -- batched`
  const commands = [
    ['DEL', 'b'],
    ['SCRIPT', 'LOAD', script],
    ['EVALSHA', sha1(script), 1, 'b'],
    ['EVAL', script, 1, 'b'],
  ]
  const answers = [{ result: 0 }, { result: sha1(script) }, { result: 1 }, { result: 2 }]
  assert.deepEqual((await fixture.call('/multi-exec', commands)).body, answers)
  await run('DEL', 'b')
  assert.deepEqual((await fixture.call('/pipeline', commands)).body, answers)
})

test('a flush, through the gateway or behind its back, ends in NOSCRIPT and EVAL brings the script back', async () => {
  for (const flush of [() => run('SCRIPT', 'FLUSH'), () => direct.script('FLUSH')]) {
    await run('EVAL', INCREMENT, 1, 'n')
    await flush()
    assert.match((await run('EVALSHA', sha1(INCREMENT), 1, 'n')).error, /^NOSCRIPT /)
    assert.deepEqual(await run('SCRIPT', 'EXISTS', sha1(INCREMENT)), { result: [0] })
  }
  assert.equal(typeof (await run('EVAL', INCREMENT, 1, 'n')).result, 'number')
  assert.equal(typeof (await run('EVALSHA', sha1(INCREMENT), 1, 'n')).result, 'number')
})

test('errors name the script by the digest and the line of the caller', async () => {
  const script = `${SHEBANG}local x = 1\nreturn redis.call('INCR', KEYS[1], x)`
  for (const answer of [
    await run('EVAL', script, 1, 'k'),
    await run('EVALSHA', sha1(script), 1, 'k'),
    (await fixture.call('/multi-exec', [['EVALSHA', sha1(script), 1, 'k']])).body[0],
  ]) {
    assert.match(answer.error, new RegExp(`script: ${sha1(script)}, on @user_script:\\d+`))
  }
  const broken = `${SHEBANG}local x = 1\nboom()`
  assert.match((await run('EVAL', broken, 0)).error, /user_script:3: .*boom/)
})

test('other flags of the shebang keep their meaning', async () => {
  const noWrites = `#!lua flags=no-writes,allow-key-locking\nreturn redis.call('SET', KEYS[1], 1)`
  assert.match(
    (await run('EVAL', noWrites, 1, 'k')).error,
    /Write commands are not allowed from read-only scripts/,
  )
  assert.match(
    (await run('EVAL', '#!lua flags=allow-key-locking,nonsense\nreturn 1', 0)).error,
    /Unexpected flag/,
  )
  assert.match(
    (await run('EVAL', '#!lua flags=nonsense\nreturn 1', 0)).error,
    /Unexpected flag in script shebang: nonsense/,
  )
  assert.deepEqual(await run('EVAL', '#!lua\nreturn 1', 0), { result: 1 })
})

const dynamic = (key: string) =>
  `ERR Dynamic keys are not allowed in Lua scripts when 'allow-key-locking' flag is set. Key was: ${key}`

test('a key-locking script may touch only the keys in KEYS, however it spells the command', async () => {
  const body = "return redis.call('GET', 'secret')"
  assert.deepEqual(await run('EVAL', body, 0), { result: null })
  for (const [lines, keys, undeclared] of [
    [body, [], 'secret'],
    ["return redis.call('get', KEYS[1] .. 'x')", ['a'], 'ax'],
    ["return redis.call('GeT', 'b')", ['a'], 'b'],
    ["return redis.call('SE' .. 'T', 'b', 1)", ['a'], 'b'],
    ["return redis.call('MSET', KEYS[1], 1, 'b', 2)", ['a'], 'b'],
    ["return redis.call('DEL', KEYS[1], KEYS[2], 'c')", ['a', 'b'], 'c'],
    ["return redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[1], 'z')", ['a'], 'z'],
    ["return redis.call('XREAD', 'COUNT', 1, 'STREAMS', 's', '0')", ['a'], 's'],
    ["return redis.call('BITOP', 'NOT', KEYS[1], 'bits')", ['a'], 'bits'],
    ["KEYS[2] = 'added'\nreturn redis.call('GET', KEYS[2])", ['a'], 'added'],
    ["return redis.call('GET', 7)", ['a'], '7'],
  ] as const) {
    const { error } = await run('EVAL', SHEBANG + lines, keys.length, ...keys)
    assert.ok(error?.startsWith(dynamic(undeclared)), `${lines}: ${error}`)
  }
  const caught = `${SHEBANG}local e = redis.pcall('GET', 'secret')\nreturn e.err`
  assert.deepEqual(await run('EVAL', caught, 0), { result: dynamic('secret') })
  const wiped = await run('EVAL', `${SHEBANG}return redis.call('FLUSHALL')`, 0)
  assert.match(wiped.error, /Database-wide command 'flushall' is not allowed/)
})

test('a key-locking script with its keys declared runs as it would alone', async () => {
  const lines = `
    redis.call('MSET', KEYS[1], 1, KEYS[2], 2)
    redis.call('ZADD', KEYS[3], 1, 'm')
    redis.call('ZUNIONSTORE', KEYS[4], 2, KEYS[3], KEYS[4])
    local time = redis.call('TIME')
    redis.log(redis.LOG_DEBUG, 'quiet')
    local wrong = redis.pcall('INCR', KEYS[4])
    return {redis.call('get', KEYS[1]), redis.call('MGET', KEYS[2], '7', 9), #time, wrong.err, redis.sha1hex('')}`
  const keys = ['a', 'b', 'z', 'u', '7', '9']
  const { result } = await run('EVAL', SHEBANG + lines, keys.length, ...keys)
  assert.deepEqual(result.slice(0, 3), ['1', ['2', null, null], 2])
  assert.match(result[3], /^WRONGTYPE/)
  assert.equal(result[4], sha1(''))
})

test('without strict keys undeclared keys go through, as on stock Redis', async () => {
  const gateway = await startGateway({ redisUrl: fixture.redis.url, token: 't', port: 0 })
  const init = { method: 'POST', headers: { authorization: 'Bearer t' } }
  const body = JSON.stringify(['EVAL', `${SHEBANG}return redis.call('GET', 'secret')`, 0])
  assert.deepEqual(await (await fetch(gateway.url, { ...init, body })).json(), { result: null })
  await gateway.close()
})

test('what the check asks Redis at run time is not billed', async () => {
  const computed = `${SHEBANG}return redis.call('SE' .. 'T', KEYS[1], 1)`
  await fixture.call('/_gateway/stats/reset', '')
  await run('EVAL', computed, 1, 'k')
  const { body } = await fixture.call('/_gateway/stats')
  assert.deepEqual(body.by_command, { eval: 1, set: 1 })
})
