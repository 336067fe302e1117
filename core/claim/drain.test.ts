import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { logKey } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { startDrain } from './drain.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from './testing.ts'

describe('the drain', () => {
  let database: FreshDatabase
  let redis: FreshRedis
  let ground: Ground
  before(async () => {
    ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
    ground = await openGround(database.url, redis.url)
    ground.runs(startDrain(ground.deps))
  })
  after(async () => {
    await ground.close()
    await discard(redis)
    await database.drop()
  })

  it('makes every accepted claim one coupon, with its ledger row and its event, and empties the log', async () => {
    const bucket = await openCampaign(ground, { quota: 200 })
    const accepted = await claimFor(ground, bucket, people(150))
    assert.equal(accepted.length, 150)
    await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
    const coupons = await ground.sql`
      SELECT k.request_id, k.user_id, k.claim_seq, k.rule_version::int, k.state, k.valid_to - k.valid_from AS valid,
        c.status, c.coupon_id = k.coupon_id AS same, l.to_state, o.payload->>'coupon_id' = k.coupon_id::text AS told
      FROM coupons k JOIN claims c USING (user_id, request_id) JOIN ledger l USING (user_id, request_id)
      JOIN outbox o USING (user_id, request_id)
      WHERE k.campaign_id = ${bucket.campaignId}`
    assert.equal(coupons.length, 150)
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.accepted, gate?.settled, gate?.entries], [150, 150, 0])
  })
})
