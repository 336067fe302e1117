import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { Registry } from 'prom-client'
import { limits } from '../../schema/limits.ts'
import { until } from '../../stack/process.ts'
import { connect } from '../connect.ts'
import { parseEnv } from '../env.ts'
import { demoCampaign } from '../ops/demo.ts'
import { type Answer, answerOf, makeRig, type Rig } from '../rig.test.ts'
import { buildApp } from './routes.ts'
import { startHttp } from './server.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
  rig.app.get('/boom', () => {
    throw new Error('secret: postgres://user:password@host')
  })
})
after(() => rig.close())

const call = async (path: string, init?: RequestInit) => answerOf(await rig.app.request(path, init))

function assertProblem(answer: Answer, status: number, code: string): void {
  assert.deepEqual([answer.status, answer.body['code'], answer.body['status']], [status, code, status])
  assert.equal(answer.headers.get('content-type'), 'application/problem+json')
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  assert.equal(answer.headers.get('x-request-id'), answer.body['request_id'])
  for (const member of ['type', 'title', 'detail'])
    assert.ok((answer.body[member] as string).length > 0, `${member} is missing`)
}

test('an unknown path is NOT_FOUND, a wrong method names those that are offered', async () => {
  assertProblem(await call('/nowhere'), 404, 'NOT_FOUND')
  const answer = await call('/healthz', { method: 'DELETE' })
  assertProblem(answer, 405, 'METHOD_NOT_ALLOWED')
  assert.equal(answer.headers.get('allow'), 'GET, HEAD')
  const admin = await rig.get('operator:o', '/admin/v1/campaigns/c1/submit')
  assertProblem(admin, 405, 'METHOD_NOT_ALLOWED')
  assert.equal(admin.headers.get('allow'), 'POST')
})

test('a failure of ours says nothing of its cause, and its log has the request’s id', async () => {
  const answer = await call('/boom')
  assertProblem(answer, 500, 'INTERNAL')
  assert.doesNotMatch(answer.text, /secret|password/)
  const logged = rig.logs.find((line) => line['msg'] === 'a request failed')
  assert.equal(logged?.['request_id'], answer.body['request_id'])
  assert.match(JSON.stringify(logged), /secret/)
})

test('a body that is no JSON, too large or of another type is refused as such', async () => {
  const headers = {
    Authorization: `Bearer ${await rig.login('operator:o')}`,
    'Idempotency-Key': 'k',
    'Content-Type': 'application/json',
  }
  const post = (body: string, extra: Record<string, string> = {}) =>
    call('/admin/v1/campaigns', { method: 'POST', body, headers: { ...headers, ...extra } })
  assertProblem(await post('{"name":'), 400, 'INVALID_REQUEST')
  assertProblem(await post('[]'), 400, 'INVALID_REQUEST')
  assertProblem(await post('{}', { 'Content-Type': 'text/plain' }), 415, 'UNSUPPORTED_MEDIA_TYPE')
  const large = JSON.stringify({ name: 'x'.repeat(limits.requestBodyBytesMax) })
  assertProblem(await post(large), 413, 'PAYLOAD_TOO_LARGE')
  assertProblem(await post(''), 400, 'INVALID_REQUEST')
})

test('over a real connection: a chunked body that grows too large is cut, a content type without body is no fault', async () => {
  const http = await startHttp(rig.app, '127.0.0.1', 0)
  try {
    const headers = {
      Authorization: `Bearer ${await rig.login('operator:o')}`,
      'Idempotency-Key': 'k',
      'If-Match': '"1"',
      'Content-Type': 'application/json',
    }
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new TextEncoder().encode(' '.repeat(4_096))),
    })
    const sent = await fetch(`${http.url}/admin/v1/campaigns`, {
      method: 'POST',
      body: endless,
      headers,
      duplex: 'half',
    } as RequestInit)
    assertProblem(await answerOf(sent), 413, 'PAYLOAD_TOO_LARGE')
    const bare = await fetch(`${http.url}/admin/v1/campaigns/c1/submit`, { method: 'POST', headers })
    assertProblem(await answerOf(bare), 404, 'CAMPAIGN_NOT_FOUND')
  } finally {
    await http.stop(100)
  }
})

test('a request keeps the name that the edge gave it, and a name that could not be one is replaced', async () => {
  const named = await call('/nowhere', { headers: { 'X-Request-Id': 'edge-0123456789' } })
  assert.equal(named.body['request_id'], 'edge-0123456789')
  const odd = await call('/nowhere', { headers: { 'X-Request-Id': 'a"b<script>' } })
  assert.match(odd.body['request_id'] as string, /^[0-9a-f-]{36}$/)
})

test('ready when Postgres, Redis and a script answer; otherwise it says which does not, and nothing more', async () => {
  // Each check has a deadline of its own, which a machine that stalls may miss once.
  const untilChecks = (checks: Record<string, string>) => {
    const look = async () => {
      const answer = await call('/readyz')
      return isDeepStrictEqual(answer.body['checks'], checks) && answer
    }
    return until(look, `the checks never say ${JSON.stringify(checks)}`, 20_000)
  }
  const well = { postgres: 'ok', redis: 'ok', script: 'ok' }
  const ready = await untilChecks(well)
  assert.equal(ready.status, 200)
  assert.deepEqual(ready.body, { status: 'ready', checks: well })
  await rig.redis.stop()
  try {
    const answer = await untilChecks({ postgres: 'ok', redis: 'failed', script: 'failed' })
    assertProblem(answer, 503, 'UNAVAILABLE')
    assert.ok(answer.headers.get('retry-after'))
    assert.equal((await call('/healthz')).status, 200)
  } finally {
    await rig.redis.restart()
  }
  assert.equal((await untilChecks(well)).status, 200)
})

test('with Postgres away a read is UNAVAILABLE, a command’s outcome is unknown, and neither says more', async () => {
  const gone = 'postgres://user:hunter2@127.0.0.1:1/none'
  const away = connect(parseEnv({ ...rig.env, DATABASE_URL: gone }), rig.deps.log)
  try {
    const app = buildApp(away.deps, { isStopping: () => false })
    const headers = { Authorization: `Bearer ${await rig.login('operator:o')}`, 'Idempotency-Key': 'k' }
    const read = await answerOf(await app.request('/admin/v1/campaigns', { headers }))
    assertProblem(read, 503, 'UNAVAILABLE')
    assert.equal(read.headers.get('retry-after'), '1')
    const options = { name: 'd', quota: 1, perUserLimit: 1, opensInS: 0, hours: 1, nowMs: Date.now() }
    const command = await app.request('/admin/v1/campaigns', {
      method: 'POST',
      headers: { ...headers, 'Content-Type': 'application/json' },
      body: JSON.stringify(demoCampaign(options)),
    })
    const answer = await answerOf(command)
    assertProblem(answer, 503, 'OUTCOME_UNKNOWN')
    assert.doesNotMatch(read.text + answer.text, /hunter2|ECONN|127\.0\.0\.1/)
  } finally {
    await away.close()
  }
})

test('a process that stops says that it is not ready', async () => {
  const app = buildApp({ ...rig.deps, metrics: new Registry() }, { isStopping: () => true })
  assertProblem(await answerOf(await app.request('/readyz')), 503, 'UNAVAILABLE')
})

test('metrics count requests by route, never by a path that a caller chose', async () => {
  await rig.get('operator:o', '/admin/v1/campaigns/c1')
  await call('/a-path-of-my-own')
  const { text, headers } = await call('/metrics')
  assert.match(headers.get('content-type') ?? '', /^text\/plain/)
  assert.match(text, /tidegate_http_request_seconds_count\{method="GET",route="none",status="404"\}/)
  assert.match(text, /process_cpu_seconds_total/)
  assert.doesNotMatch(text, /a-path-of-my-own/)
})

test('the OpenAPI document has every public route with its refusals, and none of the internal ones', async () => {
  const { body } = await call('/openapi.json')
  assert.equal(body['openapi'], '3.1.0')
  const paths = body['paths'] as Record<string, Record<string, Operation>>
  for (const verb of ['submit', 'approve', 'reject', 'publish', 'pause', 'resume', 'end', 'void']) {
    const operation = paths[`/admin/v1/campaigns/{id}/${verb}`]?.['post']
    assert.ok(operation, verb)
    for (const status of ['200', '401', '403', '404', '409', '412', '422', '428'])
      assert.ok(operation.responses[status], `${verb} ${status}`)
    const needed = operation.parameters.filter(({ required }) => required).map(({ name }) => name)
    assert.deepEqual(needed.sort(), ['Idempotency-Key', 'If-Match', 'id'])
  }
  assert.ok(paths['/admin/v1/campaigns']?.['post'] && paths['/admin/v1/audit']?.['get'])
  assert.ok(Object.keys(paths).every((path) => !path.startsWith('/internal')))
  const listed = new Set(Object.keys(paths).map((path) => path.replaceAll(/\{(\w+)\}/g, ':$1')))
  const registered = rig.app.routes.filter(
    ({ method, path }) => method !== 'ALL' && /^\/(admin|v1)\//.test(path),
  )
  for (const { path } of registered) assert.ok(listed.has(path), `${path} is not documented`)
})
interface Operation {
  parameters: { name: string; required?: boolean }[]
  responses: Record<string, unknown>
}

test('the documentation is one page that needs nothing from elsewhere', async () => {
  const { text, headers } = await call('/docs')
  assert.match(headers.get('content-type') ?? '', /^text\/html/)
  assert.match(text, /\/admin\/v1\/campaigns\/\{id\}\/publish/)
  // Addresses may stand in examples; nothing may be loaded from one.
  assert.doesNotMatch(
    text,
    /<script|<link|<img|<iframe|@import|url\(|\bsrc\s*=|\b(?:href|action)\s*=\s*["']?(?:https?:)?\/\//i,
  )
})
