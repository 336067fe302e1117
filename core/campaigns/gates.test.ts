import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { gateKey, usersKey } from '../../lua/keys.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { type Connected, connect } from '../connect.ts'
import type { Deps } from '../deps.ts'
import { parseEnv } from '../env.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { splitExactly } from '../stock/split.ts'
import { approveCampaign } from './approve.ts'
import { createCampaign } from './create.ts'
import { endCampaign } from './end.ts'
import { reconcileGates } from './gates.ts'
import { pauseCampaign } from './pause.ts'
import { publishCampaign } from './publish.ts'
import { resumeCampaign } from './resume.ts'
import { newCampaignShape } from './shapes.ts'
import { submitCampaign } from './submit.ts'

let rig: Rig
/** The core where no Redis can be reached. */
let withoutRedis: Connected
before(async () => {
  rig = await makeRig()
  withoutRedis = connect(parseEnv({ ...rig.env, REDIS_URL: 'redis://127.0.0.1:1' }), rig.deps.log)
})
after(async () => {
  await withoutRedis.close()
  await rig.close()
})

let keys = 0
const as = (role: 'operator' | 'approver', deps: Deps = rig.deps) => ({
  deps,
  caller: { actor: role, role },
  idempotencyKey: `key-${++keys}`,
})
const input = (campaignId: string, expectedVersion: number) => ({
  campaignId,
  expectedVersion,
  reason: undefined,
})

async function approved(bucketCount = 1): Promise<string> {
  const campaign = newCampaignShape.parse({
    name: 'gates',
    quota: 10,
    per_user_limit: 1,
    starts_at: new Date(Date.now() - 1_000).toISOString(),
    ends_at: new Date(Date.now() + 3_600_000).toISOString(),
    time_zone: 'UTC',
    bucket_count: bucketCount,
    rules: {
      benefit: { kind: 'free_shipping', threshold: { currency: 'EUR', minor: '0' } },
      validity: { kind: 'days', days: 1 },
    },
  })
  const { answer } = await createCampaign(as('operator'), campaign)
  await submitCampaign(as('operator'), input(answer.id, 1))
  await approveCampaign(as('approver'), input(answer.id, 2))
  return answer.id
}
async function published(bucketCount = 1): Promise<string> {
  const id = await approved(bucketCount)
  await publishCampaign(as('operator'), input(id, 3))
  return id
}
const gate = (campaignId: string, bucket = 0) => snapshot(rig.deps.runner, { campaignId, bucket })
const bucketsOf = (id: string) =>
  rig.deps.db.admin.sql<{ primed_at: Date | null; config_version: number }[]>`
    SELECT primed_at, config_version FROM buckets WHERE campaign_id = ${id} ORDER BY bucket`

test('a crash between publication and priming is healed by the next round', async () => {
  const id = await approved(3)
  const { answer } = await publishCampaign(as('operator', withoutRedis.deps), input(id, 3))
  assert.deepEqual([answer.state, answer.gates], ['ACTIVE', { buckets: 3, reached: 0, reached_at: null }])
  assert.equal(await gate(id), undefined)
  assert.equal(await reconcileGates(rig.deps), 0)
  assert.deepEqual(await Promise.all([0, 1, 2].map(async (b) => (await gate(id, b))?.remaining)), [4, 3, 3])
})

test('a crash between priming and its record leaves the stock as it is', async () => {
  const id = await published()
  const bucket = { campaignId: id, bucket: 0 }
  await renewLease(rig.deps.runner, bucket, 60_000, true)
  const reply = await claim(rig.deps.runner, bucket, [{ userId: 'u', packed: `${'a'.repeat(35)}A` }])
  assert.equal(reply.verdicts[0]?.decision, 'ACCEPTED')
  await rig.deps.db.admin
    .sql`UPDATE buckets SET primed_at = NULL, config_version = 0 WHERE campaign_id = ${id}`
  assert.equal(await reconcileGates(rig.deps), 0)
  assert.equal((await gate(id))?.remaining, 9)
  assert.notEqual((await bucketsOf(id))[0]?.primed_at, null)
})

test('a gate that was primed and is lost is never primed again: a new one would give its stock twice', async () => {
  const id = await published()
  await rig.deps.redis.del(gateKey({ campaignId: id, bucket: 0 }))
  assert.equal(await reconcileGates(rig.deps), 0)
  const { answer } = await pauseCampaign(as('operator'), input(id, 4))
  assert.deepEqual(answer.gates, { buckets: 1, reached: 0, reached_at: null })
  assert.equal(await gate(id), undefined)
})

test('acceptances without their gate stop a priming', async () => {
  const id = await approved()
  await publishCampaign(as('operator', withoutRedis.deps), input(id, 3))
  await rig.deps.redis.hset(usersKey({ campaignId: id, bucket: 0 }), 'u', 'record')
  assert.ok((await reconcileGates(rig.deps)) > 0)
  assert.equal(await gate(id), undefined)
  assert.equal((await bucketsOf(id))[0]?.primed_at, null)
  await rig.deps.redis.del(usersKey({ campaignId: id, bucket: 0 }))
  assert.equal(await reconcileGates(rig.deps, id), 0)
})

test('a pause that Redis did not hear of stands, says so, and reaches the gates with the next round', async () => {
  const id = await published(2)
  const ctx = as('operator', withoutRedis.deps)
  const first = await pauseCampaign(ctx, input(id, 4))
  assert.deepEqual([first.answer.state, first.answer.gates?.reached], ['PAUSED', 0])
  assert.equal((await gate(id))?.state, 'ACTIVE')
  assert.equal(await reconcileGates(rig.deps, id), 0)
  assert.deepEqual([(await gate(id))?.state, (await gate(id, 1))?.state], ['PAUSED', 'PAUSED'])
  const again = await pauseCampaign({ ...ctx, deps: rig.deps }, input(id, 4))
  assert.equal(again.replayed, true)
  assert.deepEqual([again.answer.gates?.reached, again.answer.gates?.buckets], [2, 2])
  assert.notEqual(again.answer.gates?.reached_at, null)
})

test('a command repeated until its gates were reached repeats that instant from then on', async () => {
  const id = await published()
  const ctx = as('operator')
  const first = await pauseCampaign(ctx, input(id, 4))
  const again = await pauseCampaign(ctx, input(id, 4))
  assert.deepEqual(again.answer, first.answer)
})

test('states that came fast one after the other end in every gate as the last one', async () => {
  const id = await published(4)
  for (const [verb, version] of [
    [pauseCampaign, 4],
    [resumeCampaign, 5],
    [pauseCampaign, 6],
    [endCampaign, 7],
  ] as const)
    await verb(as('operator'), input(id, version))
  const gates = await Promise.all([0, 1, 2, 3].map((bucket) => gate(id, bucket)))
  assert.deepEqual(new Set(gates.map((g) => `${g?.state} ${g?.configVersion}`)), new Set(['ENDED 5']))
  assert.deepEqual(new Set((await bucketsOf(id)).map((b) => b.config_version)), new Set([5]))
})

test('a round asks Redis nothing when nothing lags', async () => {
  let asked = 0
  const counting: Deps = {
    ...rig.deps,
    runner: {
      run(...args) {
        asked++
        return rig.deps.runner.run(...args)
      },
    },
  }
  await rig.deps.db.admin.sql`DELETE FROM buckets WHERE campaign_id IN (
    SELECT campaign_id FROM buckets JOIN campaigns c USING (campaign_id)
    WHERE buckets.config_version < c.config_version OR primed_at IS NULL)`
  assert.equal(await reconcileGates(counting), 0)
  assert.equal(asked, 0)
})

test('the parts of a quota add up to it and differ by one at most', () => {
  for (const [quota, parts] of [
    [1, 1],
    [103, 4],
    [100_000_000, 1024],
    [7, 7],
  ] as const) {
    const split = splitExactly(quota, parts)
    assert.equal(split.length, parts)
    assert.equal(
      split.reduce((sum, part) => sum + part, 0),
      quota,
    )
    assert.ok(Math.max(...split) - Math.min(...split) <= 1)
  }
})
