import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { inspect, snapshot } from '../../lua/stock.ts'
import { unsealClaimToken } from '../../schema/tokens.ts'
import { type Campaign, World } from './world.ts'

/** Entries to a ballot take the way of claims, and no stock (CL19). */

let world: World
before(async () => {
  world = await World.start()
})
after(() => world.stop())

const seedHash = 'ab'.repeat(32)

async function ballot(): Promise<Campaign> {
  const campaign = await world.campaign({ quota: 1 })
  const hint = { seed_hash: seedHash }
  world.core.campaigns.set(campaign.id, { ...campaign.snapshot, mode: 'ballot', ballot: hint })
  return campaign
}

test('more people than there are coupons enter a ballot, each once, and no stock is taken', async () => {
  const campaign = await ballot()
  const users = ['ann', 'bob', 'cleo']
  for (const user of users) {
    const token = await world.token(campaign, user)
    assert.equal(unsealClaimToken(token, world.ring('claimTokenKeys'))?.terms, 'ballot')
    const answer = await world.claim(campaign.id, { token, key: `first-${user}` })
    assert.deepEqual([answer.status, answer.body.status], [202, 'ACCEPTED'], answer.text)
    const again = await world.claim(campaign.id, { token, key: `first-${user}` })
    assert.equal(again.headers.get('Idempotency-Replayed'), 'true')
    assert.equal(again.body.request_id, answer.body.request_id)
    const [entry] = (await inspect(world.runner, campaign.buckets[0]!, user))!
    assert.deepEqual([entry?.requestId, entry?.state], [answer.body.request_id, 'B'])
  }
  const second = await world.claim(campaign.id, { token: await world.token(campaign, 'ann'), key: 'second' })
  assert.deepEqual([second.status, second.body.code], [409, 'LIMIT_REACHED'])
  const gate = (await snapshot(world.runner, campaign.buckets[0]!))!
  assert.deepEqual([gate.remaining, gate.accepted, gate.entries], [1, 0, 3])
})

test('the view of a ballot shows its seed’s hash', async () => {
  const campaign = await ballot()
  const answer = await world.call(`/v1/campaigns/${campaign.id}`)
  assert.deepEqual(
    [answer.status, answer.body['mode'], answer.body['ballot']],
    [200, 'ballot', { seed_hash: seedHash }],
  )
})
