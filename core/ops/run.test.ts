import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { LOGIN_AUDIENCE, LOGIN_ISSUER } from '../../stack/issuer.ts'
import { keepKeys, type StackKeys } from '../../stack/keys.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { type HttpServer, startHttp } from '../http/server.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { publishedCampaign } from '../stock/testing.ts'
import { runOps } from './run.ts'

let rig: Rig
let http: HttpServer
let home: string
let keys: StackKeys
before(async () => {
  home = temporaryFolder('ops')
  keys = await keepKeys(join(home, 'keys.json'))
  rig = await makeRig(keys)
  http = await startHttp(rig.app, '127.0.0.1', 0)
  writeFileSync(join(home, 'endpoints.json'), JSON.stringify({ core: http.url }))
})
after(async () => {
  await http.stop(100)
  await rig.close()
})

async function ops(
  argv: string[],
  more: { env?: Record<string, string>; stdin?: string; home?: string } = {},
) {
  const out: string[] = []
  const err: string[] = []
  const code = await runOps(argv, {
    env: more.env ?? {},
    home: more.home ?? home,
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    readStdin: () => more.stdin ?? '',
  })
  return { code, out, err: err.join('\n'), last: out.at(-1) ?? '' }
}
const json = async (...argv: string[]) => {
  const { code, last, err } = await ops([...argv, '--json'])
  assert.equal(code, 0, err)
  return JSON.parse(last) as Record<string, unknown>
}

test('token prints a login that the local stack’s issuer would have signed', async () => {
  const { code, out } = await ops(['token', '--user', '张三', '--role', 'auditor', '--ttl', '30m'])
  assert.deepEqual([code, out.length], [0, 1])
  const { payload } = await jwtVerify(out[0]!, createLocalJWKSet({ keys: [keys.login.publicKey] }), {
    issuer: LOGIN_ISSUER,
    audience: LOGIN_AUDIENCE,
    algorithms: ['ES256'],
  })
  assert.deepEqual([payload.sub, payload['role'], payload.exp! - payload.iat!], ['张三', 'auditor', 1_800])
  const shopper = await ops(['token', '--user', 'u'])
  const [, body] = shopper.last.split('.')
  assert.ok(!('role' in JSON.parse(Buffer.from(body!, 'base64url').toString())))
})

test('demo makes an active campaign, by two people, and prints its id', async () => {
  const made = await json('demo', '--quota', '50', '--limit', '2', '--opens-in', '60')
  assert.equal(made['campaign_id'], made['id'])
  assert.deepEqual([made['state'], made['quota'], made['per_user_limit']], ['ACTIVE', 50, 2])
  assert.notEqual(made['created_by'], made['approved_by'])
  assert.ok(Date.parse(made['starts_at'] as string) > Date.now() + 30_000)
  const plain = await ops(['demo'])
  assert.match(plain.last, /^c[0-9a-z]{24} ACTIVE v4 quota=1000 gates=1\/1 /)
})

test('every step of a campaign’s life can be commanded, and each result is the last line', async () => {
  const file = join(home, 'campaign.json')
  const demo = await json('demo')
  const { name, quota, per_user_limit, starts_at, ends_at, time_zone, rules } = demo
  writeFileSync(file, JSON.stringify({ name, quota, per_user_limit, starts_at, ends_at, time_zone, rules }))
  const { id } = (await json('campaign', 'create', '--file', file)) as { id: string }
  for (const [verb, state] of [
    ['submit', 'IN_REVIEW'],
    ['reject', 'DRAFT'],
    ['submit', 'IN_REVIEW'],
    ['approve', 'APPROVED'],
    ['publish', 'ACTIVE'],
    ['pause', 'PAUSED'],
    ['resume', 'ACTIVE'],
    ['void', 'VOIDED'],
  ] as const) {
    const { code, last, err } = await ops(['campaign', verb, id, '--reason', 'a test'])
    assert.equal(code, 0, err)
    assert.ok(last.startsWith(`${id} ${state} `), last)
  }
  assert.equal((await json('campaign', 'show', id))['state'], 'VOIDED')
  assert.equal((await json('inventory', id))['campaign_id'], id)
  assert.equal(((await json('audit', '--target', id))['data'] as unknown[]).length, 9)
  const list = await ops(['campaign', 'list', '--limit', '1'])
  assert.match(list.last, /^more: --cursor /)
})

test('a command repeated with its key and version has one effect', async () => {
  const { id } = await json('demo')
  const call = ['campaign', 'pause', id as string, '--key', 'pause-1', '--version', '4']
  assert.deepEqual(await json(...call), await json(...call))
  const stale = await ops(['campaign', 'resume', id as string, '--version', '4'])
  assert.deepEqual([stale.code, stale.err.split(':')[0]], [1, 'PRECONDITION_FAILED'])
})

test('what the core refuses ends with 1, its code and its sentence', async () => {
  const unknown = await ops(['campaign', 'show', 'c1'])
  assert.equal(unknown.code, 1)
  assert.match(unknown.err, /^CAMPAIGN_NOT_FOUND: /)
  const wrong = await ops(['campaign', 'create', '--file', '-'], { stdin: '{"quota":0}' })
  assert.equal(wrong.code, 1)
  assert.match(wrong.err, /quota: /)
  const other = await ops(['campaign', 'list', '--token', await rig.login(':shopper')])
  assert.match(other.err, /^FORBIDDEN: /)
})

test('a wrong call ends with 2 and says what to give', async () => {
  for (const argv of [
    [],
    ['nonsense'],
    ['token'],
    ['token', '--user', 'u', '--role', 'king'],
    ['token', '--user', 'u', '--ttl', 'long'],
    ['campaign', 'pause'],
    ['campaign', 'read', 'c1'],
    ['campaign', 'create'],
    ['campaign', 'create', '--file', '/nowhere'],
    ['demo', '--quota', 'many'],
    ['demo', '--unknown'],
  ]) {
    const { code, err } = await ops(argv)
    assert.equal(code, 2, argv.join(' '))
    assert.notEqual(err, '')
  }
  assert.equal((await ops(['demo'], { home: '/nowhere' })).code, 2)
})

test('help is no error', async () => {
  const { code, out } = await ops(['--help'])
  assert.equal(code, 0)
  assert.match(out.join('\n'), /token --user U/)
})

test('a core that does not answer ends with 3', async () => {
  const { code, err } = await ops(['campaign', 'list', '--core', 'http://127.0.0.1:1'])
  assert.equal(code, 3)
  assert.match(err, /does not answer/)
  assert.equal((await ops(['campaign', 'list'], { env: { TIDEGATE_CORE_URL: 'nonsense' } })).code, 2)
})

test('increase and pace change a running campaign, each by the role that may', async () => {
  const { id } = (await json('demo', '--quota', '50')) as { id: string }
  const more = await json('campaign', 'increase', id, '--amount', '7', '--reason', 'many came')
  assert.equal(more['quota'], 57)
  const paced = await json('campaign', 'pace', id, '--pace', '20', '--burst', '40')
  assert.deepEqual(paced['pace'], { per_second: 20, burst: 40 })
  assert.equal((await json('campaign', 'pace', id, '--pace', 'none'))['pace'], undefined)
  const without = await ops(['campaign', 'increase', id, '--reason', 'x'])
  assert.deepEqual([without.code, /--amount/.test(without.err)], [2, true])
  assert.equal((await ops(['ballot', 'draw', id])).code, 1)
})

test('ballot verify runs a published draw again, from the core or from a file, and fails on a false one', async () => {
  const { id } = await publishedCampaign(rig, { mode: 'ballot', quota: 2 })
  const open = await ops(['ballot', 'verify', '--campaign', id])
  assert.deepEqual([open.code, /no draw to verify/.test(open.err)], [1, true])
  const sql = rig.deps.db.admin.sql
  await sql`UPDATE campaigns SET ends_at = now() - interval '1 hour', starts_at = now() - interval '2 hours'
    WHERE campaign_id = ${id}`
  await json('campaign', 'end', id)
  const drawn = await ops(['ballot', 'draw', id, '--reason', 'over'])
  assert.equal(drawn.code, 0, drawn.err)
  assert.deepEqual(await json('ballot', 'verify', '--campaign', id), { holds: true, entrants: 0, winners: 0 })
  const record = await (await fetch(`${http.url}/v1/campaigns/${id}/ballot`)).text()
  const offline = await ops(['ballot', 'verify', '--file', '-'], { stdin: record, home: '/nowhere' })
  assert.deepEqual([offline.code, /The draw holds/.test(offline.last)], [0, true])
  const forged = record.replace('"winners":[]', `"winners":["${'0'.repeat(64)}"]`)
  const wrong = await ops(['ballot', 'verify', '--file', '-'], { stdin: forged, home: '/nowhere' })
  assert.deepEqual([wrong.code, /does not hold/.test(wrong.err)], [1, true])
})
