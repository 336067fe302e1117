import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gateKey, logKey, usersKey } from '../../lua/keys.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { sealReceipt } from '../../schema/tokens.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { startDrain } from '../claim/drain.ts'
import { readClaim } from '../claim/status.ts'
import { type Accepted, claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { findActive } from '../guardian/active.ts'
import { checkIdentity } from '../guardian/identity.ts'
import { honourReceipt } from './honour.ts'
import { rebuildBucket } from './rebuild.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
  ground.runs(startDrain(ground.deps, { consumer: 'honour' }))
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

/** A campaign whose acceptances are all lost, and its gate rebuilt: with the receipts of them. */
async function afterLoss(quota: number, claims: number) {
  // The drain must not see them before they are lost.
  const bucket = await openCampaign(ground, { quota, state: 'PAUSED', known: false })
  const accepted = await claimFor(ground, bucket, people(claims))
  await ground.redis.del(gateKey(bucket), usersKey(bucket), logKey(bucket))
  await ground.sql`UPDATE buckets SET primed_at = now() WHERE campaign_id = ${bucket.campaignId}`
  await ground.sql`UPDATE campaigns SET state = 'ACTIVE' WHERE campaign_id = ${bucket.campaignId}`
  const rebuild = { bucket, cause: 'test', actor: 'tester', role: 'operator', force: false }
  assert.equal((await rebuildBucket(ground.deps, rebuild)).outcome, 'rebuilt')
  const receiptOf = ({ userId, requestId }: Accepted) =>
    sealReceipt({ ...bucket, requestId, userId }, ground.deps.keyrings.receipt)
  return { bucket, accepted, receiptOf }
}

const settled = ({ userId, requestId }: Accepted) =>
  until(
    async () => {
      const view = await readClaim(ground.deps, userId, requestId).catch(() => undefined)
      return view !== undefined && view.status !== 'PROCESSING' && view
    },
    'not settled',
    15_000,
  )

describe('a receipt of an acceptance that Redis lost (CL15)', () => {
  it('becomes a coupon under its own request id, once, however often it is presented', async () => {
    const { bucket, accepted, receiptOf } = await afterLoss(5, 2)
    const [ann] = accepted as [Accepted, Accepted]
    const views = await Promise.all(
      Array.from({ length: 5 }, () => honourReceipt(ground.deps, receiptOf(ann), ann.userId)),
    )
    assert.deepEqual(new Set(views.map(({ request_id }) => request_id)), new Set([ann.requestId]))
    assert.equal((await settled(ann)).status, 'DELIVERED')
    assert.equal((await honourReceipt(ground.deps, receiptOf(ann), undefined)).status, 'DELIVERED')
    const gate = (await snapshot(ground.deps.runner, bucket))!
    assert.deepEqual([gate.remaining, gate.accepted], [4, 1])
  })

  it('is rejected with a reason when the stock is gone or its user has another; the identity holds', async () => {
    const { bucket, accepted, receiptOf } = await afterLoss(2, 2)
    const [first, second] = accepted as [Accepted, Accepted]
    // One of them claims anew, and somebody else takes the last one.
    await renewLease(ground.deps.runner, bucket, 60_000, true)
    await claimFor(ground, bucket, [first.userId, 'stranger'])
    const mine = await honourReceipt(ground.deps, receiptOf(first), first.userId)
    assert.deepEqual([mine.status, mine.reason], ['REJECTED', 'REJECTED_DUPLICATE'])
    const other = await honourReceipt(ground.deps, receiptOf(second), second.userId)
    assert.deepEqual([other.status, other.reason], ['REJECTED', 'REJECTED_QUOTA'])
    assert.equal((await honourReceipt(ground.deps, receiptOf(second), second.userId)).status, 'REJECTED')
    await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
    const active = (await findActive(ground.deps)).filter(
      ({ campaignId }) => campaignId === bucket.campaignId,
    )
    assert.deepEqual(await checkIdentity(ground.deps, active), [{ holds: true }])
  })

  it('finds stock that went elsewhere meanwhile', async () => {
    const { bucket, accepted, receiptOf } = await afterLoss(1, 1)
    const [ann] = accepted as [Accepted]
    await ground.sql`UPDATE buckets SET allocated = 0 WHERE campaign_id = ${bucket.campaignId}`
    await ground.sql`UPDATE campaign_stock SET unallocated = 1 WHERE campaign_id = ${bucket.campaignId}`
    const rebuild = { bucket, cause: 'test', actor: 'tester', role: 'operator', force: false }
    assert.equal((await rebuildBucket(ground.deps, rebuild)).outcome, 'rebuilt')
    assert.equal((await honourReceipt(ground.deps, receiptOf(ann), ann.userId)).status, 'PROCESSING')
    assert.equal((await settled(ann)).status, 'DELIVERED')
  })

  it('is refused when it is forged, altered, or another user’s; and told to come back during a rebuild', async () => {
    const { bucket, accepted, receiptOf } = await afterLoss(5, 1)
    const [ann] = accepted as [Accepted]
    const receipt = receiptOf(ann)
    for (const [text, user] of [
      [`${receipt}x`, ann.userId],
      ['', ann.userId],
      [receipt, 'mallory'],
    ] as const)
      await assert.rejects(honourReceipt(ground.deps, text, user), { code: 'INVALID_REQUEST' })
    await ground.redis.del(gateKey(bucket))
    await assert.rejects(honourReceipt(ground.deps, receipt, ann.userId), { code: 'NOT_READY' })
  })
})
