import assert from 'node:assert/strict'
import { request } from 'node:http'
import { after, before, test } from 'node:test'
import { type Fixture, startFixture } from './fixture.ts'
import { BODY_MAX_BYTES } from './http.ts'

/** The protocol's forms and codes, without an SDK in between. */

let fixture: Fixture
before(async () => {
  fixture = await startFixture()
})
after(() => fixture.end())

const base64 = { 'upstash-encoding': 'base64' }

test('a command in the path, with what may follow it in the body and the query', async () => {
  const { call } = fixture
  assert.deepEqual((await call('/set/foo/b%C3%A4r%2Fx')).body, { result: 'OK' })
  assert.deepEqual((await call('/get/foo')).body, { result: 'bär/x' })
  assert.deepEqual((await call('/SET/foo?EX=100&NX', 'unused')).body, { result: null })
  assert.deepEqual((await call('/set/foo?EX=100', 'a value, {"not": "parsed"}')).body, { result: 'OK' })
  assert.deepEqual((await call('/get/foo')).body, { result: 'a value, {"not": "parsed"}' })
  // Redis rounds what is left to whole seconds.
  const { result: left } = (await call('/ttl/foo/')).body
  assert.ok(left > 60 && left <= 100, `${left} s`)
  assert.deepEqual((await call('/ping')).body, { result: 'PONG' })
  assert.equal((await call('/get/%FF')).status, 400)
})

test('a body of any bytes is stored and given back unchanged', async () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
  assert.deepEqual((await fixture.call('/set/bytes', bytes)).body, { result: 'OK' })
  const { body } = await fixture.call('/get/bytes', undefined, base64)
  assert.deepEqual(Buffer.from(body.result, 'base64'), bytes)
  const plain = await fixture.call('/get/bytes')
  assert.ok(plain.body.result.endsWith('\ufffd'))
})

test('base64 encodes every text but a status OK, at any depth, and neither numbers nor errors', async () => {
  const { call } = fixture
  assert.deepEqual((await call('/', ['SET', 'k', 'OK'], base64)).body, { result: 'OK' })
  assert.deepEqual((await call('/', ['GET', 'k'], base64)).body, { result: 'T0s=' })
  assert.deepEqual((await call('/', ['PING'], base64)).body, { result: 'UE9ORw==' })
  const nested = ['EVAL', "return {'a', 1, {'b', {}}, redis.status_reply('OK'), false}", 0]
  assert.deepEqual((await call('/', nested, base64)).body, {
    result: ['YQ==', 1, ['Yg==', []], 'T0s=', null],
  })
  assert.deepEqual((await call('/', ['GET'], base64)).body, {
    error: "ERR wrong number of arguments for 'get' command",
  })
  const many = [
    ['GET', 'k'],
    ['GET', 'none'],
    ['INCR', 'k'],
  ]
  const items = [
    { result: 'T0s=' },
    { result: null },
    { error: 'ERR value is not an integer or out of range' },
  ]
  assert.deepEqual((await call('/pipeline', many, base64)).body, items)
  assert.deepEqual((await call('/multi-exec', many, base64)).body, items)
})

test('numbers and booleans become text without losing a digit', async () => {
  for (const written of ['42', '-0.5', '12345678901234567890', '1.10', 'true']) {
    await fixture.call('/', `["SET","number",${written}]`)
    assert.deepEqual((await fixture.call('/get/number')).body, { result: written })
  }
})

test('what Redis refuses is 400 with the words of Redis', async () => {
  const { call } = fixture
  for (const [command, error] of [
    [['GET'], /^ERR wrong number of arguments for 'get' command$/],
    [['NOSUCH', 'x'], /^ERR unknown command 'NOSUCH'/],
    [['EVALSHA', 'f'.repeat(40), 0], /^NOSCRIPT No matching script\. Please use EVAL\.$/],
    [['EVAL', 'syntax error', 0], /^ERR Error compiling script/],
  ] as const) {
    const { status, body } = await call('/', command)
    assert.equal(status, 400)
    assert.deepEqual(Object.keys(body), ['error'])
    assert.match(body.error, error)
  }
  await call('/set/text/x')
  assert.match((await call('/lpush/text/y')).body.error, /^WRONGTYPE /)
})

test('a body that is not a command is 400 and says what to send', async () => {
  const { call } = fixture
  for (const [path, body, error] of [
    ['/', '', /not valid JSON/],
    ['/', '{', /not valid JSON/],
    ['/', '{"a":1}', /must be a JSON array/],
    ['/', '"GET"', /must be a JSON array/],
    ['/', '[]', /^ERR empty command$/],
    ['/', '["GET",null]', /^ERR null args are not supported$/],
    ['/', '["GET",["x"]]', /^ERR unsupported arg type/],
    ['/', '["GET",{"x":1}]', /^ERR unsupported arg type/],
    ['/pipeline', '[]', /^ERR empty pipeline/],
    ['/pipeline', '["GET","x"]', /must be a JSON array/],
    ['/pipeline', '[["GET","x"],[]]', /^ERR empty command$/],
    ['/multi-exec', 'x', /not valid JSON/],
  ] as const) {
    const answer = await call(path, body)
    assert.equal(answer.status, 400, `${path} ${body}`)
    assert.match(answer.body.error, error)
  }
  assert.deepEqual((await call('/ping')).body, { result: 'PONG' })
})

test('without the right token nothing runs and the answer is 401', async () => {
  const error =
    'WRONGPASS invalid or missing auth token. See https://docs.upstash.com/redis/troubleshooting/http_unauthorized for details.'
  for (const [path, headers] of [
    ['/set/intruder/1', {}],
    ['/set/intruder/1', { authorization: 'Bearer wrong' }],
    ['/set/intruder/1', { authorization: `Basic ${fixture.token}` }],
    ['/set/intruder/1?_token=wrong', {}],
    [`/set/intruder/1?_token=${fixture.token}`, { authorization: 'Bearer wrong' }],
    ['/subscribe/x', {}],
    ['/_gateway/stats', {}],
  ] as const) {
    const response = await fetch(fixture.url + path, { method: 'POST', headers, body: 'x'.repeat(100_000) })
    assert.equal(response.status, 401, path)
    assert.deepEqual(await response.json(), { error })
  }
  assert.deepEqual((await fixture.call('/exists/intruder')).body, { result: 0 })
})

test('the token may stand in the query', async () => {
  const response = await fetch(`${fixture.url}/echo/hi?_token=${fixture.token}`)
  assert.deepEqual([response.status, await response.json()], [200, { result: 'hi' }])
})

test('commands that would take over, block or harm the shared connection are refused, and the others run', async () => {
  const refused = [
    ...[
      ['BLPOP', 'x', 0],
      ['blmove', 'a', 'b', 'LEFT', 'LEFT', 0],
      ['WAIT', 1, 0],
      ['BZPOPMIN', 'x', 0],
    ],
    ...[
      ['XREAD', 'BLOCK', 0, 'STREAMS', 's', '$'],
      ['XREADGROUP', 'GROUP', 'g', 'c', 'block', 0, 'STREAMS', 's', '>'],
    ],
    ...[
      ['MULTI'],
      ['EXEC'],
      ['WATCH', 'x'],
      ['SUBSCRIBE', 'x'],
      ['MONITOR'],
      ['SELECT', 1],
      ['CLIENT', 'REPLY', 'OFF'],
    ],
    ...[
      ['AUTH', 'x'],
      ['HELLO', 3],
      ['QUIT'],
      ['RESET'],
      ['SHUTDOWN'],
      ['DEBUG', 'SLEEP', 1],
      ['REPLICAOF', 'x', 1],
    ],
    ...[
      ['CONFIG', 'SET', 'maxmemory', 1],
      ['SCRIPT', 'DEBUG', 'YES'],
      ['MIGRATE', 'h', 1, 'k', 0, 1],
    ],
  ]
  for (const command of refused) {
    const { status, body } = await fixture.call('/', command)
    assert.equal(status, 400, String(command))
    assert.match(body.error, /^ERR Command (".*" is not allowed in REST|is not available)/, String(command))
    assert.equal((await fixture.call('/multi-exec', [['PING'], command])).status, 400)
  }
  assert.match((await fixture.call('/script', 'debug')).body.error, /is not available: 'SCRIPT DEBUG'/)
  const { body } = await fixture.call(
    '/pipeline',
    refused.flatMap((command) => [command, ['PING']]),
  )
  assert.equal(body.length, refused.length * 2)
  for (const [i, item] of body.entries()) assert.ok(i % 2 === 0 ? item.error : item.result === 'PONG')
  const groupCalledBlock = ['XREADGROUP', 'GROUP', 'BLOCK', 'BLOCK', 'STREAMS', 'BLOCK', '>']
  assert.match((await fixture.call('/', groupCalledBlock)).body.error, /^NOGROUP/)
})

test('other methods are 405, and HEAD has no body', async () => {
  const headers = { authorization: `Bearer ${fixture.token}` }
  const deleted = await fetch(`${fixture.url}/get/x`, { method: 'DELETE', headers })
  assert.equal(deleted.status, 405)
  const put = await fetch(fixture.url, { method: 'PUT', headers, body: '["ECHO","put"]' })
  assert.deepEqual(await put.json(), { result: 'put' })
  const head = await fetch(`${fixture.url}/ping`, { method: 'HEAD', headers })
  assert.deepEqual([head.status, await head.text()], [200, ''])
})

test('a request over 10 MiB is 413, announced or not, and the connection stays usable', async () => {
  const headers = { authorization: `Bearer ${fixture.token}` }
  const tooLarge = Buffer.alloc(BODY_MAX_BYTES + 1, 'x')
  const chunked = () => new Blob([tooLarge]).stream()
  for (const [body, duplex] of [
    [tooLarge, undefined],
    [chunked(), 'half'],
  ] as const) {
    const init = { method: 'POST', headers, body: body as unknown as string, duplex } as RequestInit
    const response = await fetch(`${fixture.url}/set/large`, init)
    assert.equal(response.status, 413)
    assert.match(
      ((await response.json()) as { error: string }).error,
      /^ERR max request size exceeded\. Limit: 10485760 bytes/,
    )
    assert.deepEqual((await fixture.call('/exists/large')).body, { result: 0 })
  }
  assert.equal((await fixture.call('/set/large', tooLarge.subarray(1))).status, 200)
  assert.equal((await fixture.call('/strlen/large')).body.result, BODY_MAX_BYTES)
})

test('RESP2 answers are the bytes of Redis', async () => {
  const headers = { authorization: `Bearer ${fixture.token}`, 'upstash-response-format': 'resp2' }
  const ask = async (path: string, body: unknown) => {
    const response = await fetch(fixture.url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    return [response.status, response.headers.get('content-type'), await response.text()]
  }
  const bytes = 'application/octet-stream'
  assert.deepEqual(await ask('/', ['ECHO', 'ü']), [200, bytes, '$2\r\nü\r\n'])
  assert.deepEqual(await ask('/pipeline', [['PING'], ['GET', 'none']]), [200, bytes, '+PONG\r\n$-1\r\n'])
  assert.deepEqual(await ask('/', ['GET']), [
    400,
    bytes,
    "-ERR wrong number of arguments for 'get' command\r\n",
  ])
  assert.equal((await ask('/multi-exec', [['PING']]))[2], '[{"result":"PONG"}]')
  assert.equal((await fixture.call('/ping', undefined, { ...headers, ...base64 })).status, 400)
  assert.equal((await fixture.call('/ping', undefined, { 'upstash-encoding': 'gzip' })).status, 400)
  assert.equal((await fixture.call('/ping', undefined, { 'upstash-response-format': 'xml' })).status, 400)
})

test('every answer carries a sync token, which the SDK sends back', async () => {
  for (const path of ['/ping', '/nosuch']) {
    const token = (await fixture.call(path)).headers.get('upstash-sync-token')
    assert.ok(token)
    assert.equal((await fixture.call('/ping', undefined, { 'upstash-sync-token': token })).status, 200)
  }
})

test('a caller that leaves in the middle of its request disturbs nobody', async () => {
  const { hostname, port } = new URL(fixture.url)
  const headers = { authorization: `Bearer ${fixture.token}`, 'content-length': 1000 }
  const halfway = request({ hostname, port, method: 'POST', path: '/', headers })
  halfway.on('error', () => undefined)
  await new Promise<void>((resolve) => halfway.write('["SET",', () => resolve()))
  halfway.destroy()
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) => fixture.call('/', ['ECHO', String(i)])),
  )
  assert.deepEqual(
    answers.map(({ body }) => body.result),
    answers.map((_, i) => String(i)),
  )
})
