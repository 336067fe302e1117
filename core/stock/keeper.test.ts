import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { gateKey } from '../../lua/keys.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import { claimArgs } from '../claim/testing.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { collectEnded } from './collect.ts'
import { makeRebalancer, startStockKeeper } from './keeper.ts'
import { leaseAll, publishedCampaign, readBalance, until } from './testing.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

/**
 * People who nearly all belong to two of eight buckets claim until none of them is accepted any more. Their bucket
 * is chosen here, not by hash: the skew is the point.
 */
async function sellOut(id: string, buckets: number, rounds: number, tend: () => Promise<unknown>) {
  let accepted = 0
  let user = 0
  for (let round = 0; round < rounds; round++) {
    for (const bucket of [0, 0, 0, 1, round % buckets]) {
      const people = Array.from({ length: 20 }, () => claimArgs(`skew-${id}-${++user}`))
      const { verdicts } = await claim(rig.deps.runner, { campaignId: id, bucket }, people)
      accepted += verdicts.filter(({ decision }) => decision === 'ACCEPTED').length
    }
    await tend()
  }
  return accepted
}

/** The rounds of a keeper without its waits: the clock jumps over them. */
function rebalancer() {
  let skippedMs = 0
  const keeper = makeRebalancer({ ...rig.deps, clock: () => Date.now() + skippedMs })
  return () => {
    skippedMs += 60_000
    return keeper.round()
  }
}

for (const policy of ['rebalance', 'centralise'] as const satisfies readonly TailPolicy[])
  test(`${policy}: eight buckets with skewed users sell exactly the quota (CL10)`, async () => {
    const quota = 403
    const { id } = await publishedCampaign(rig, { quota, bucket_count: 8, tail_policy: policy })
    await leaseAll(rig.deps, id, 8)
    assert.equal(await sellOut(id, 8, 60, rebalancer()), quota)
    const balance = await readBalance(rig.deps, id)
    assert.deepEqual(
      [balance.remaining, balance.unallocated, balance.inTransit, balance.allocated],
      [0, 0, 0, quota],
    )
  })

test('accept: an empty bucket is sold out, and at the end what is left is taken back exactly', async () => {
  const quota = 403
  const { id, command } = await publishedCampaign(rig, { quota, bucket_count: 8, tail_policy: 'accept' })
  await leaseAll(rig.deps, id, 8, true)
  const sold = await sellOut(id, 8, 10, rebalancer())
  assert.ok(sold < quota)
  const { verdicts } = await claim(rig.deps.runner, { campaignId: id, bucket: 0 }, [claimArgs('late')])
  assert.equal(verdicts[0]?.decision, 'SOLD_OUT')
  await command('operator:olga', 'end')
  await until('the leftovers are back', async () => {
    await collectEnded(rig.deps)
    return (await readBalance(rig.deps, id)).unallocated === quota - sold
  })
  const balance = await readBalance(rig.deps, id)
  assert.deepEqual([balance.remaining, balance.inTransit, balance.allocated], [0, 0, sold])
})

test('stock that nobody fetches does not wander between empty buckets for ever', async () => {
  const { id } = await publishedCampaign(rig, { quota: 8, bucket_count: 8 })
  await leaseAll(rig.deps, id, 8)
  for (let bucket = 1; bucket < 8; bucket++)
    await claim(rig.deps.runner, { campaignId: id, bucket }, [claimArgs(`one-${id}-${bucket}`)])
  // Three seconds, however long the rounds take: the longer it goes on, the more moves there are.
  let nowMs = Date.now()
  const keeper = makeRebalancer({ ...rig.deps, clock: () => nowMs })
  for (let round = 0; round < 50; round++) {
    await keeper.round()
    nowMs += 60
  }
  const [row] = await rig.deps.db.admin.sql<{ n: number }[]>`
    SELECT count(*) AS n FROM transfers WHERE campaign_id = ${id}`
  assert.ok(row!.n >= 1 && row!.n <= 5, `${row!.n} transfers`)
})

test('no stock leaves a bucket without a lease: its gate may be behind the ledger', async () => {
  const { id } = await publishedCampaign(rig, { quota: 400, bucket_count: 2, tail_policy: 'rebalance' })
  await leaseAll(rig.deps, id, 2)
  for (let at = 0; at < 200; at += 50) {
    const people = Array.from({ length: 50 }, (_, i) => claimArgs(`unleased-${id}-${at + i}`))
    await claim(rig.deps.runner, { campaignId: id, bucket: 0 }, people)
  }
  await renewLease(rig.deps.runner, { campaignId: id, bucket: 1 }, 0, false)
  const tend = rebalancer()
  await tend()
  assert.equal((await snapshot(rig.deps.runner, { campaignId: id, bucket: 0 }))!.remaining, 0)
  await leaseAll(rig.deps, id, 2)
  await tend()
  assert.ok((await snapshot(rig.deps.runner, { campaignId: id, bucket: 0 }))!.remaining > 0)
})

test('a gate that can’t be read keeps its campaign’s stock where it is, and no other’s', async () => {
  const lost = await publishedCampaign(rig, { quota: 80, bucket_count: 2 })
  const well = await publishedCampaign(rig, { quota: 4, bucket_count: 2 })
  await rig.deps.redis.del(gateKey({ campaignId: lost.id, bucket: 1 }))
  await leaseAll(rig.deps, well.id, 2)
  for (const user of ['a', 'b'])
    await claim(rig.deps.runner, { campaignId: well.id, bucket: 0 }, [claimArgs(`${user}-${well.id}`)])
  await rebalancer()()
  const moved = await rig.deps.db.admin.sql<{ campaign_id: string }[]>`
    SELECT campaign_id FROM transfers WHERE campaign_id IN (${lost.id}, ${well.id})`
  assert.deepEqual(
    moved.map((row) => row.campaign_id),
    [well.id],
  )
})

test('an increase whose process died after its commit reaches the buckets by the keeper', async () => {
  const { id } = await publishedCampaign(rig, { quota: 10, bucket_count: 2 })
  await rig.deps.db.admin.sql`UPDATE campaigns SET quota = 15 WHERE campaign_id = ${id}`
  await rig.deps.db.admin.sql`
    UPDATE campaign_stock SET quota = 15, unallocated = 5 WHERE campaign_id = ${id}`
  const keeper = startStockKeeper(rig.deps)
  try {
    await until('the stock is in the buckets', async () => {
      const balance = await readBalance(rig.deps, id)
      return balance.remaining === 15 && balance.unallocated === 0
    })
  } finally {
    await keeper.stop()
  }
})
