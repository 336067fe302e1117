import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { gateKey } from '../../lua/keys.ts'
import type { Guards } from '../../schema/guards.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'
import { connect } from '../connect.ts'
import type { Deps } from '../deps.ts'
import { parseEnv } from '../env.ts'
import { answerOf, makeRig, type Rig } from '../rig.test.ts'
import { makeSnapshots } from './snapshot.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

async function make(steps: string[], bucketCount = 1, guards?: Guards): Promise<string> {
  const made = await rig.post('operator:olga', '/admin/v1/campaigns', {
    name: 'view',
    quota: 20,
    per_user_limit: 2,
    starts_at: new Date(Date.now() - 1_000).toISOString(),
    ends_at: new Date(Date.now() + 3_600_000).toISOString(),
    time_zone: 'UTC',
    bucket_count: bucketCount,
    rules: {
      benefit: { kind: 'fixed_price', price: { currency: 'JPY', minor: '100' } },
      validity: { kind: 'days', days: 1 },
      ...(guards && { guards }),
    },
  })
  const id = made.body['id'] as string
  for (const [i, step] of steps.entries()) {
    const who = ['approve', 'void', 'reject'].includes(step) ? 'approver:anna' : 'operator:olga'
    const answer = await rig.post(who, `/admin/v1/campaigns/${id}/${step}`, undefined, {
      'Idempotency-Key': step,
      'If-Match': `"${i + 1}"`,
    })
    assert.equal(answer.status, 200, answer.text)
  }
  return id
}
const ask = async (
  id: string,
  headers: Record<string, string> = { 'Tidegate-Assertion': rig.assertion('') },
) => answerOf(await rig.app.request(`/internal/v1/campaigns/${id}`, { headers }))
const fresh = (deps: Deps = rig.deps) => makeSnapshots(deps)
const empty = (id: string, bucket: number) =>
  rig.deps.redis.hset(gateKey({ campaignId: id, bucket }), 'remaining', '0')

test('only the edge itself may ask: no user, no operator, nobody without an assertion, none that is old', async () => {
  const id = await make(['submit', 'approve'])
  assert.equal((await ask(id)).status, 200)
  for (const headers of [
    {},
    { Authorization: `Bearer ${await rig.login('operator:olga')}` },
    { 'Tidegate-Assertion': rig.assertion('somebody') },
    { 'Tidegate-Assertion': rig.assertion('', Date.now() - 120_000) },
    { 'Tidegate-Assertion': `${rig.assertion('')}x` },
  ])
    assert.equal((await ask(id, headers as Record<string, string>)).status, 401)
})

test('the public learns of a campaign once it was approved, and not of one that was voided before', async () => {
  for (const steps of [[], ['submit'], ['submit', 'reject'], ['void'], ['submit', 'void']])
    assert.equal((await ask(await make(steps))).body['code'], 'CAMPAIGN_NOT_FOUND', steps.join())
  for (const [steps, state] of [
    [['submit', 'approve'], 'APPROVED'],
    [['submit', 'approve', 'void'], 'VOIDED'],
    [['submit', 'approve', 'publish', 'pause'], 'PAUSED'],
  ] as const)
    assert.equal((await ask(await make([...steps]))).body['state'], state)
})

test('a snapshot carries the guards of the campaign’s rules, as they were written', async () => {
  const guards: Guards = {
    limits: { token: { user: { count: 1, per_ms: 1_000 } } },
    turnstile: true,
    rollout: { basis_points: 500, regions: ['CN'] },
    audience: { users: ['tester'] },
    blocked: { networks: ['192.0.2.0/24', '2001:db8::/48'] },
    risk: { rules: [{ kind: 'velocity', of: 'user', count: 5, per_ms: 60_000, score: 10 }], review_at: 10 },
  }
  const id = await make(['submit', 'approve'], 1, guards)
  assert.deepEqual((await ask(id)).body['guards'], guards)
  assert.equal((await ask(await make(['submit', 'approve']))).body['guards'], undefined)
})

test('a snapshot has what the edge derives its view from', async () => {
  const id = await make(['submit', 'approve', 'publish'])
  const { body } = await ask(id)
  const snapshot = body as unknown as CampaignSnapshot
  assert.deepEqual(
    { ...snapshot, starts_at_ms: 0, ends_at_ms: 0 },
    {
      id,
      name: 'view',
      mode: 'first_come',
      state: 'ACTIVE',
      config_version: 1,
      starts_at_ms: 0,
      ends_at_ms: 0,
      per_user_limit: 2,
      bucket_count: 1,
      benefit: { kind: 'fixed_price', price: { currency: 'JPY', minor: '100' } },
      validity: { kind: 'days', days: 1 },
      time_zone: 'UTC',
      sold_out: false,
    },
  )
  assert.ok(snapshot.starts_at_ms < Date.now() && Date.now() < snapshot.ends_at_ms)
})

test('an unchanged snapshot is not sent again', async () => {
  const id = await make(['submit', 'approve', 'publish'])
  const first = await ask(id)
  const etag = first.headers.get('etag') as string
  const headers = { 'Tidegate-Assertion': rig.assertion(''), 'If-None-Match': etag }
  const again = await ask(id, headers)
  assert.deepEqual([again.status, again.text], [304, ''])
})

test('a campaign is sold out when the last of its gates is empty, and open again when one has stock', async () => {
  const id = await make(['submit', 'approve', 'publish'], 20)
  for (let bucket = 0; bucket < 20; bucket++) if (bucket !== 17) await empty(id, bucket)
  const soldOut = async () => (await fresh().get(id))?.sold_out
  assert.equal(await soldOut(), false)
  await empty(id, 17)
  assert.equal(await soldOut(), true)
  await rig.deps.redis.hset(gateKey({ campaignId: id, bucket: 3 }), 'remaining', '1')
  assert.equal(await soldOut(), false)
  await rig.deps.redis.del(gateKey({ campaignId: id, bucket: 3 }))
  assert.equal(await soldOut(), false, 'a gate that is missing is not an empty one')
})

test('however many ask, a campaign is read once in 200 ms', async () => {
  const id = await make(['submit', 'approve', 'publish'])
  let asked = 0
  let now = 1_000_000
  const snapshots = fresh({
    ...rig.deps,
    clock: () => now,
    runner: {
      run(...args) {
        asked++
        return rig.deps.runner.run(...args)
      },
    },
  })
  await Promise.all(Array.from({ length: 50 }, () => snapshots.get(id)))
  assert.equal(asked, 1)
  now += 199
  await snapshots.get(id)
  assert.equal(asked, 1)
  now += 1
  await snapshots.get(id)
  assert.equal(asked, 2)
})

test('with Redis away the snapshot still comes, and does not say sold out', async () => {
  const id = await make(['submit', 'approve', 'publish'])
  const away = connect(parseEnv({ ...rig.env, REDIS_URL: 'redis://127.0.0.1:1' }), rig.deps.log)
  try {
    assert.equal((await fresh(away.deps).get(id))?.sold_out, false)
  } finally {
    await away.close()
  }
})
