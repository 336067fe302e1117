import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { snapshot } from '../../lua/stock.ts'
import { makeRig, type Rig } from '../rig.test.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

const window = () => ({
  starts_at: new Date(Date.now() - 60_000).toISOString(),
  ends_at: new Date(Date.now() + 3_600_000).toISOString(),
})
const campaign = (extra: object = {}) => ({
  name: '双十一 first come',
  mode: 'first_come',
  quota: 100,
  per_user_limit: 1,
  ...window(),
  time_zone: 'Asia/Shanghai',
  rules: {
    benefit: {
      kind: 'amount_off',
      amount: { currency: 'CNY', minor: '1000' },
      threshold: { currency: 'CNY', minor: '10000' },
    },
    validity: { kind: 'days', days: 7 },
  },
  ...extra,
})

interface Made {
  id: string
  version: number
}
async function make(extra: object = {}): Promise<Made> {
  const made = await rig.post('operator:olga', '/admin/v1/campaigns', campaign(extra))
  assert.equal(made.status, 201, made.text)
  return made.body as unknown as Made
}
let commands = 0
async function command(who: string, verb: string, made: Made, extra: { key?: string; body?: unknown } = {}) {
  const key = extra.key ?? `command-${++commands}`
  const answer = await rig.post(who, `/admin/v1/campaigns/${made.id}/${verb}`, extra.body, {
    'If-Match': `"${made.version}"`,
    'Idempotency-Key': key,
  })
  if (answer.status === 200) made.version = answer.body['version'] as number
  return answer
}
async function publish(extra: object = {}): Promise<Made> {
  const made = await make(extra)
  for (const [who, verb] of [
    ['operator:olga', 'submit'],
    ['approver:anna', 'approve'],
    ['operator:olga', 'publish'],
  ] as const) {
    const answer = await command(who, verb, made)
    assert.equal(answer.status, 200, answer.text)
  }
  return made
}
const auditOf = async (target: string) =>
  (await rig.get('auditor:ada', `/admin/v1/audit?target=${target}`)).body['data'] as {
    action: string
    outcome: string
    actor: string
    role: string
    reason: string | null
    before: { state?: string } | null
    after: { state?: string; code?: string }
  }[]

test('a campaign goes draft → review → approved → active ⇄ paused → ended, each step audited with before and after (case-L13)', async () => {
  const made = await publish()
  for (const [verb, state] of [
    ['pause', 'PAUSED'],
    ['resume', 'ACTIVE'],
    ['end', 'ENDED'],
  ] as const) {
    const answer = await command('operator:olga', verb, made, { body: { reason: `because ${verb}` } })
    assert.equal(answer.body['state'], state, answer.text)
  }
  const rows = (await auditOf(made.id)).reverse()
  assert.deepEqual(
    rows.map((row) => [row.action, row.actor, row.role, row.before?.state ?? null, row.after.state]),
    [
      ['campaign.create', 'olga', 'operator', null, 'DRAFT'],
      ['campaign.submit', 'olga', 'operator', 'DRAFT', 'IN_REVIEW'],
      ['campaign.approve', 'anna', 'approver', 'IN_REVIEW', 'APPROVED'],
      ['campaign.publish', 'olga', 'operator', 'APPROVED', 'ACTIVE'],
      ['campaign.pause', 'olga', 'operator', 'ACTIVE', 'PAUSED'],
      ['campaign.resume', 'olga', 'operator', 'PAUSED', 'ACTIVE'],
      ['campaign.end', 'olga', 'operator', 'ACTIVE', 'ENDED'],
    ],
  )
  assert.equal(rows[4]?.reason, 'because pause')
})

test('publishing splits the quota exactly over the buckets and primes every gate with its part, once', async () => {
  const made = await publish({ quota: 103, bucket_count: 4 })
  const gates = await Promise.all(
    [0, 1, 2, 3].map((bucket) => snapshot(rig.deps.runner, { campaignId: made.id, bucket })),
  )
  assert.deepEqual(
    gates.map((gate) => gate?.remaining),
    [26, 26, 26, 25],
  )
  assert.ok(gates.every((gate) => gate?.state === 'ACTIVE' && !gate.final && gate.leaseUntilMs === 0))
  const { body } = await rig.get('auditor:ada', `/admin/v1/campaigns/${made.id}/inventory`)
  assert.equal(body['quota'], 103)
  assert.equal(body['remaining'], 103)
  const slices = body['buckets'] as { allocated: number; primed_at: string | null }[]
  assert.equal(
    slices.reduce((sum, { allocated }) => sum + allocated, 0),
    103,
  )
  assert.ok(slices.every(({ primed_at }) => primed_at !== null))
})

test('the only gate of a campaign is final: its empty bucket means sold out', async () => {
  const made = await publish()
  assert.equal((await snapshot(rig.deps.runner, { campaignId: made.id, bucket: 0 }))?.final, true)
})

test('pause reaches all gates, with a newer configuration, and the answer says when the last one had it (IS12)', async () => {
  const made = await publish({ bucket_count: 3 })
  const answer = await command('approver:anna', 'pause', made)
  const gates = answer.body['gates'] as { buckets: number; reached: number; reached_at: string }
  assert.deepEqual([gates.buckets, gates.reached], [3, 3])
  assert.ok(Math.abs(Date.parse(gates.reached_at) - Date.now()) < 5_000)
  for (const bucket of [0, 1, 2]) {
    const gate = await snapshot(rig.deps.runner, { campaignId: made.id, bucket })
    assert.deepEqual([gate?.state, gate?.configVersion], ['PAUSED', 2])
  }
})

test('who makes a campaign never approves it, whatever the role (GV4), and the attempt is recorded (case-L14)', async () => {
  const made = await make()
  await command('operator:olga', 'submit', made)
  const answer = await command('approver:olga', 'approve', made)
  assert.deepEqual([answer.status, answer.body['code']], [403, 'FORBIDDEN'])
  assert.equal((await rig.get('operator:olga', `/admin/v1/campaigns/${made.id}`)).body['state'], 'IN_REVIEW')
  const [last] = await auditOf(made.id)
  assert.deepEqual(
    [last?.action, last?.outcome, last?.actor, last?.after.code],
    ['campaign.approve', 'refused', 'olga', 'FORBIDDEN'],
  )
})

test('every verb is refused to every role but its own, and each refused attempt is recorded', async () => {
  const allowed: Record<string, string[]> = {
    submit: ['operator'],
    approve: ['approver'],
    reject: ['approver'],
    publish: ['operator'],
    pause: ['operator', 'approver'],
    resume: ['operator'],
    end: ['operator'],
    void: ['approver'],
  }
  const made = await make()
  let refused = 0
  for (const [verb, who] of Object.entries(allowed))
    for (const role of ['operator', 'approver', 'support', 'finance', 'auditor', 'order-service', ''].filter(
      (r) => !who.includes(r),
    )) {
      // Without any header: the permission comes before all else.
      const answer = await rig.post(`${role}:mallory`, `/admin/v1/campaigns/${made.id}/${verb}`)
      assert.deepEqual([verb, role, answer.status, answer.body['code']], [verb, role, 403, 'FORBIDDEN'])
      refused++
    }
  assert.equal((await auditOf(made.id)).filter(({ outcome }) => outcome === 'refused').length, refused)
  assert.equal((await rig.post('auditor:ada', '/admin/v1/campaigns', campaign())).status, 403)
})

test('a step that the state does not allow is a CONFLICT that says what it needs, and changes nothing', async () => {
  const made = await make()
  for (const [who, verb] of [
    ['approver:anna', 'approve'],
    ['approver:anna', 'reject'],
    ['operator:olga', 'publish'],
    ['operator:olga', 'pause'],
    ['operator:olga', 'resume'],
    ['operator:olga', 'end'],
  ] as const) {
    const answer = await command(who, verb, made)
    assert.deepEqual([verb, answer.status, answer.body['code']], [verb, 409, 'CONFLICT'])
    assert.match(answer.body['detail'] as string, /The campaign is DRAFT/)
  }
  await command('operator:olga', 'submit', made)
  assert.equal((await command('approver:anna', 'reject', made)).body['state'], 'DRAFT')
  assert.equal((await command('approver:anna', 'void', made)).body['state'], 'VOIDED')
  assert.equal((await command('operator:olga', 'submit', made)).status, 409)
})

test('publishing again, also by another command at the same time, gives no second stock', async () => {
  const made = await make()
  await command('operator:olga', 'submit', made)
  await command('approver:anna', 'approve', made)
  const at = { ...made }
  const both = await Promise.all([
    command('operator:olga', 'publish', { ...at }),
    command('operator:otto', 'publish', { ...at }),
  ])
  assert.deepEqual(both.map(({ status }) => status).sort(), [200, 412])
  const { body } = await rig.get('operator:olga', `/admin/v1/campaigns/${made.id}/inventory`)
  assert.deepEqual([body['quota'], body['remaining']], [100, 100])
})

test('a command names the version that its caller saw: none is 428, an old one is 412', async () => {
  const made = await make()
  const path = `/admin/v1/campaigns/${made.id}/submit`
  const without = await rig.post('operator:olga', path, undefined, { 'Idempotency-Key': 'k' })
  assert.deepEqual([without.status, without.body['code']], [428, 'PRECONDITION_REQUIRED'])
  const star = await rig.post('operator:olga', path, undefined, { 'Idempotency-Key': 'k', 'If-Match': '*' })
  assert.equal(star.status, 400)
  await command('operator:olga', 'submit', made)
  const old = await command('approver:anna', 'approve', { ...made, version: 1 })
  assert.deepEqual([old.status, old.body['code']], [412, 'PRECONDITION_FAILED'])
  const shown = await rig.get('approver:anna', `/admin/v1/campaigns/${made.id}`)
  assert.equal(shown.headers.get('etag'), `"${made.version}"`)
})

test('the same key and body give the same answer; another body is refused and changes nothing (case-B4)', async () => {
  const body = campaign()
  const key = { 'Idempotency-Key': 'create-once' }
  const first = await rig.post('operator:olga', '/admin/v1/campaigns', body, key)
  const reordered = Object.fromEntries(Object.entries(body).reverse())
  const again = await rig.post('operator:olga', '/admin/v1/campaigns', reordered, key)
  assert.deepEqual([again.status, again.body], [201, first.body])
  assert.equal(again.headers.get('idempotency-replayed'), 'true')
  assert.equal(again.headers.get('etag'), first.headers.get('etag'))
  const other = await rig.post('operator:olga', '/admin/v1/campaigns', { ...body, quota: 101 }, key)
  assert.deepEqual([other.status, other.body['code']], [422, 'IDEMPOTENCY_MISMATCH'])
  const elsewhere = await rig.post('operator:otto', '/admin/v1/campaigns', body, key)
  assert.notEqual(elsewhere.body['id'], first.body['id'], 'a key belongs to its user')
})

test('a command repeated after its state moved on still gives its first answer, and acts once', async () => {
  const made = await publish()
  const before = { ...made }
  const first = await command('operator:olga', 'pause', made, { key: 'pause-once' })
  await command('operator:olga', 'resume', made)
  const again = await command('operator:olga', 'pause', { ...before }, { key: 'pause-once' })
  assert.deepEqual(again.body, first.body)
  assert.equal((await rig.get('operator:olga', `/admin/v1/campaigns/${made.id}`)).body['state'], 'ACTIVE')
})

test('of requests with the same key at the same time one executes, and all get its answer (case-B3)', async () => {
  const body = campaign()
  const all = await Promise.all(
    Array.from({ length: 8 }, () =>
      rig.post('operator:olga', '/admin/v1/campaigns', body, { 'Idempotency-Key': 'at-once' }),
    ),
  )
  assert.deepEqual(new Set(all.map(({ status }) => status)), new Set([201]))
  assert.equal(new Set(all.map(({ body: made }) => made['id'])).size, 1)
  const rows = await auditOf(all[0]!.body['id'] as string)
  assert.equal(rows.length, 1)
})

test('a refused command leaves its key free: it may succeed later', async () => {
  const made = await make()
  assert.equal((await command('operator:olga', 'publish', made, { key: 'publish' })).status, 409)
  await command('operator:olga', 'submit', made)
  await command('approver:anna', 'approve', made)
  assert.equal((await command('operator:olga', 'publish', made, { key: 'publish' })).status, 200)
})

test('a campaign whose window passed while it was reviewed is not published any more', async () => {
  const made = await make()
  await command('operator:olga', 'submit', made)
  await command('approver:anna', 'approve', made)
  await rig.deps.db.admin.sql`
    UPDATE campaigns SET starts_at = '2020-01-01', ends_at = '2020-01-02' WHERE campaign_id = ${made.id}`
  const answer = await command('operator:olga', 'publish', made)
  assert.deepEqual([answer.status, answer.body['code']], [409, 'CONFLICT'])
})
