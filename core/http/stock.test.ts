import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { startCompensator } from '../claim/compensate.ts'
import { startDrain } from '../claim/drain.ts'
import { claimArgs } from '../claim/testing.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { assertTakesLess, leaseAll, type Published, publishedCampaign, until } from '../stock/testing.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

let users = 0
/** One call of the arbiter for new users: its decisions. */
async function claims(campaignId: string, bucket: number, count: number) {
  const people = Array.from({ length: count }, () => claimArgs(`u-${campaignId}-${++users}`))
  const { verdicts, retryAfterMs } = await claim(rig.deps.runner, { campaignId, bucket }, people)
  return { decisions: verdicts.map(({ decision }) => decision), retryAfterMs }
}
const inventory = async (id: string) =>
  (await rig.get('operator:olga', `/admin/v1/campaigns/${id}/inventory`)).body as Record<string, number> & {
    buckets: { bucket: number; allocated: number; leaving: number; arriving: number }[]
    transfers: { state: string; amount: number | null }[]
  }
const more = (made: Published, amount: number, who = 'approver:anna', key?: string) =>
  made.command(who, 'increases', { amount, reason: 'many came' }, key)

test('an increase lets people claim again within 1 s of its answer, and grows the epoch (CL6)', () =>
  assertTakesLess(1_000, increaseAndClaim))

/** How long after the answer to an increase all of it was claimed, ms. */
async function increaseAndClaim(): Promise<number> {
  const made = await publishedCampaign(rig, { quota: 8, bucket_count: 4 })
  await leaseAll(rig.deps, made.id, 4, true)
  for (const bucket of [0, 1, 2, 3]) await claims(made.id, bucket, 3)
  assert.deepEqual((await claims(made.id, 2, 1)).decisions, ['SOLD_OUT'])
  const epoch = (await snapshot(rig.deps.runner, { campaignId: made.id, bucket: 2 }))!.epoch
  const answer = await more(made, 9)
  const answeredAt = performance.now()
  assert.deepEqual([answer.status, answer.body['quota']], [200, 17], answer.text)
  const accepted: string[] = []
  for (const bucket of [0, 1, 2, 3]) accepted.push(...(await claims(made.id, bucket, 3)).decisions)
  const took = performance.now() - answeredAt
  assert.equal(accepted.filter((decision) => decision === 'ACCEPTED').length, 9)
  assert.ok((await snapshot(rig.deps.runner, { campaignId: made.id, bucket: 2 }))!.epoch > epoch)
  const shown = await inventory(made.id)
  assert.deepEqual([shown['quota'], shown['sum'], shown['unallocated'], shown['remaining']], [17, 17, 0, 0])
  return took
}

test('an increase is audited with before and after, and done once however often it is sent (GV4)', async () => {
  const made = await publishedCampaign(rig, { quota: 10 })
  const version = (await rig.get('operator:olga', `/admin/v1/campaigns/${made.id}`)).body['version'] as number
  const path = `/admin/v1/campaigns/${made.id}/increases`
  const send = () =>
    rig.post(
      'approver:anna',
      path,
      { amount: 5, reason: 'many came' },
      {
        'If-Match': `"${version}"`,
        'Idempotency-Key': 'more-once',
      },
    )
  const both = await Promise.all([send(), send()])
  assert.deepEqual(
    both.map(({ body }) => body['quota']),
    [15, 15],
  )
  const { body } = await rig.get('auditor:ada', `/admin/v1/audit?target=${made.id}`)
  const rows = (body['data'] as { action: string; reason: string; before: unknown; after: unknown }[]).filter(
    ({ action }) => action === 'campaign.increase',
  ) as { reason: string; before: { quota: number }; after: { quota: number } }[]
  assert.deepEqual(
    rows.map((row) => [row.reason, row.before.quota, row.after.quota]),
    [['many came', 10, 15]],
  )
  assert.equal((await inventory(made.id))['sum'], 15)
})

test('a quota is raised by an approver who did not make the campaign, and is never lowered (case-L2)', async () => {
  const made = await publishedCampaign(rig, { quota: 10 })
  assert.equal((await more(made, 5, 'approver:olga')).body['code'], 'FORBIDDEN')
  assert.equal((await more(made, 5, 'operator:otto')).status, 403)
  for (const amount of [-5, 0, 1.5])
    assert.deepEqual([amount, (await more(made, amount)).status], [amount, 400])
  const tooMuch = await more(made, 100_000)
  assert.deepEqual([tooMuch.status, tooMuch.body['code']], [409, 'CONFLICT'])
  assert.match(tooMuch.body['detail'] as string, /add 99990 or less/)
  await made.command('operator:olga', 'end')
  assert.equal((await more(made, 5)).status, 409)
  assert.equal((await inventory(made.id))['quota'], 10)
})

test('a pause under load closes 100 buckets in less than 1 s, and says when each had it (IS12)', () =>
  assertTakesLess(1_000, pauseUnderLoad))

/** How long the command took, ms. */
async function pauseUnderLoad(): Promise<number> {
  const made = await publishedCampaign(rig, { quota: 100_000, bucket_count: 100 })
  await leaseAll(rig.deps, made.id, 100)
  let paused = false
  let last = 0
  const load = Array.from({ length: 4 }, async (_, n) => {
    for (let i = n; !paused; i += 7) {
      const { decisions } = await claims(made.id, i % 100, 8)
      if (decisions.includes('ACCEPTED')) last = performance.now()
    }
  })
  await until('claims are accepted', async () => last > 0)
  const commandedAt = performance.now()
  const answer = await made.command('approver:anna', 'pause', { reason: 'stop' })
  const answeredAt = performance.now()
  // A round over all buckets after the answer: none accepts any more.
  for (let bucket = 0; bucket < 100; bucket++)
    assert.deepEqual((await claims(made.id, bucket, 1)).decisions, ['PAUSED'])
  paused = true
  await Promise.all(load)
  assert.equal(answer.status, 200, answer.text)
  assert.ok(last <= answeredAt)
  const { closed_at: closedAt, buckets } = answer.body as {
    closed_at: string
    buckets: { bucket: number; closed_at: string }[]
  }
  assert.equal(buckets.length, 100)
  assert.equal(
    closedAt,
    buckets
      .map(({ closed_at }) => closed_at)
      .sort()
      .at(-1),
  )
  return answeredAt - commandedAt
}

test('claims accepted and not delivered when a campaign of in_flight cancel is voided are rejected, and their stock returns', async () => {
  const rules = {
    benefit: { kind: 'free_shipping', threshold: { currency: 'CNY', minor: '0' } },
    validity: { kind: 'days', days: 7 },
    in_flight: 'cancel',
  }
  const made = await publishedCampaign(rig, { quota: 10, rules })
  await leaseAll(rig.deps, made.id, 1)
  await claims(made.id, 0, 4)
  await made.command('approver:anna', 'void', { reason: 'a mistake' })
  const compensator = startCompensator(rig.deps)
  const drain = startDrain(rig.deps, { onCommitted: () => compensator.wake() })
  try {
    await until('all is returned', async () => (await inventory(made.id))['returned'] === 4)
  } finally {
    await drain.stop()
    await compensator.stop()
  }
  const rows = await rig.deps.db.admin.sql<{ status: string; reason: string }[]>`
    SELECT status, reason FROM claims WHERE campaign_id = ${made.id}`
  assert.deepEqual(
    new Set(rows.map((row) => `${row.status} ${row.reason}`)),
    new Set(['REJECTED REJECTED_CANCELLED']),
  )
  assert.equal(rows.length, 4)
})

test('a pace is set while the campaign runs, divided exactly over its buckets, and taken away again (CL12)', async () => {
  const made = await publishedCampaign(rig, { quota: 1_000, bucket_count: 2 })
  await leaseAll(rig.deps, made.id, 2)
  const answer = await made.command('operator:olga', 'pace', { pace: { per_second: 3, burst: 5 } })
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(
    [
      answer.body['pace'],
      answer.body['config_version'],
      (answer.body['gates'] as { reached: number }).reached,
    ],
    [{ per_second: 3, burst: 5 }, 2, 2],
  )
  const [first, second] = [await claims(made.id, 0, 10), await claims(made.id, 1, 10)]
  const accepted = (one: { decisions: string[] }) => one.decisions.filter((d) => d === 'ACCEPTED').length
  assert.deepEqual([accepted(first), accepted(second)], [3, 2])
  // Two tokens a second in the first, one in the second: a busy claim hears when the next one is there.
  assert.ok(first.retryAfterMs > 0 && first.retryAfterMs <= 500, `${first.retryAfterMs} ms`)
  assert.ok(second.retryAfterMs > 0 && second.retryAfterMs <= 1_000, `${second.retryAfterMs} ms`)
  const share = await made.command('operator:olga', 'pace', { pace: { per_second: 1, burst: 5 } })
  assert.deepEqual([share.status, share.body['code']], [400, 'INVALID_REQUEST'])
  const free = await made.command('operator:olga', 'pace', { pace: null })
  assert.deepEqual([free.status, free.body['pace']], [200, undefined])
  assert.equal(accepted(await claims(made.id, 1, 20)), 20)
})

test('a drip releases its parts by the arbiter’s clock, and together exactly its amounts (CL19)', async () => {
  const startsAt = Date.now() + 3_600_000
  const made = await publishedCampaign(rig, {
    mode: 'drip',
    quota: 100,
    bucket_count: 3,
    ends_at: new Date(startsAt + 86_400_000).toISOString(),
    drip: { initial: 4, starts_at: new Date(startsAt).toISOString(), every_ms: 60_000, amount: 10 },
  })
  await Promise.all(
    [0, 1, 2].map((bucket) =>
      renewLease(rig.deps.runner, { campaignId: made.id, bucket }, 86_400_000, false),
    ),
  )
  const acceptedAt = async (nowMs: number) => {
    let sum = 0
    let retry = 0
    for (const bucket of [0, 1, 2]) {
      const people = Array.from({ length: 12 }, () => claimArgs(`drip-${++users}`))
      const reply = await claim(rig.deps.runner, { campaignId: made.id, bucket }, people, nowMs)
      sum += reply.verdicts.filter(({ decision }) => decision === 'ACCEPTED').length
      retry = reply.retryAfterMs
    }
    return [sum, retry]
  }
  assert.deepEqual(await acceptedAt(startsAt - 5_000), [4, 5_000])
  assert.deepEqual(await acceptedAt(startsAt), [10, 60_000])
  assert.deepEqual(await acceptedAt(startsAt + 59_000), [0, 1_000])
  assert.deepEqual(await acceptedAt(startsAt + 120_000), [20, 60_000])
})

test('a drip or a pace that leaves a bucket without a share is refused with its place', async () => {
  const drip = { initial: 0, starts_at: new Date().toISOString(), every_ms: 1_000, amount: 2 }
  for (const [extra, at] of [
    [{ mode: 'drip' }, 'drip'],
    [{ drip }, 'drip'],
    [{ mode: 'drip', drip, bucket_count: 3 }, 'drip.amount'],
    [{ pace: { per_second: 2, burst: 9 }, bucket_count: 3 }, 'pace.per_second'],
  ] as const)
    await assert.rejects(publishedCampaign(rig, extra), (error: Error) => {
      const { errors } = JSON.parse(error.message) as { errors: { path: string }[] }
      return errors.some(({ path }) => path === at)
    })
})

test('the inventory shows what is in transit, per bucket and in sum (invariant 9)', async () => {
  const made = await publishedCampaign(rig, { quota: 20, bucket_count: 2 })
  await rig.deps.db.admin.sql`
    INSERT INTO transfers (transfer_id, campaign_id, from_bucket, to_bucket, requested, amount, state, reason,
      created_at, updated_at)
    VALUES (gen_random_uuid(), ${made.id}, NULL, 1, 3, 3, 'WITHDRAWN', 'increase', now(), now())`
  await rig.deps.db.admin.sql`UPDATE campaign_stock SET quota = 23 WHERE campaign_id = ${made.id}`
  const shown = await inventory(made.id)
  assert.deepEqual([shown['quota'], shown['in_transit'], shown['remaining'], shown['sum']], [23, 3, 20, 23])
  assert.deepEqual(
    shown.buckets.map(({ leaving, arriving }) => [leaving, arriving]),
    [
      [0, 0],
      [0, 3],
    ],
  )
  assert.deepEqual(
    shown.transfers.map(({ state, amount }) => [state, amount]),
    [['WITHDRAWN', 3]],
  )
})
