import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Bucket, gateKey, logKey } from '../../lua/keys.ts'
import { ArbiterError } from '../../lua/runner.ts'
import { renewLease, snapshot } from '../../lua/stock.ts'
import { storeOfCampaign } from '../../schema/campaignId.ts'
import { until } from '../../stack/process.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { startDrains } from '../claim/drains.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { startGuardian } from '../guardian/guardian.ts'
import { makeRig, type Rig } from '../rig.test.ts'

/** Two Redis servers by directory (SC2). */

let database: FreshDatabase
let main: FreshRedis
let two: FreshRedis
let ground: Ground
before(async () => {
  ;[database, main, two] = await Promise.all([freshDatabase(), freshRedis(), freshRedis()])
  ground = await openGround(database.url, main.url, {
    env: { REDIS_STORES: JSON.stringify({ two: two.url }) },
  })
  ground.runs(startGuardian(ground.deps))
  ground.runs(startDrains(ground.deps, { consumer: 'directory' }))
})
after(async () => {
  await ground?.close()
  await Promise.all([main, two].map((redis) => redis && discard(redis)))
  await database?.drop()
})

const isLeased = async (bucket: Bucket) => {
  const gate = await snapshot(ground.deps.runner, bucket).catch(() => undefined)
  return gate !== undefined && gate.leaseUntilMs > gate.nowMs
}
async function open(store: string): Promise<Bucket> {
  const bucket = await openCampaign(ground, { quota: 100, store })
  await renewLease(ground.deps.runner, bucket, 0, true)
  return bucket
}
async function untilIssued({ campaignId }: Bucket, count: number): Promise<void> {
  const issued = async () => {
    const [row] = await ground.sql`SELECT issued::int FROM campaign_stock WHERE campaign_id = ${campaignId}`
    return row!['issued'] === count
  }
  await until(issued, `not ${count} issued`, 15_000)
}

describe('two stores', () => {
  it('each have the gates and logs of their own campaigns, which are leased and drained side by side', async () => {
    const [one, other] = await Promise.all([open('main'), open('two')])
    for (const bucket of [one, other]) {
      await until(() => isLeased(bucket), 'no lease', 15_000)
      assert.equal((await claimFor(ground, bucket, people(50))).length, 50)
      await untilIssued(bucket, 50)
    }
    const [first, second] = ground.deps.stores.all
    const there = async (bucket: Bucket) => [
      await first!.client.exists(gateKey(bucket)),
      await second!.client.exists(gateKey(bucket)),
    ]
    assert.deepEqual(
      [await there(one), await there(other)],
      [
        [1, 0],
        [0, 1],
      ],
    )
  })

  it('do not need each other: one is away, and the other’s claims are accepted and delivered as ever', async () => {
    const [one, other] = await Promise.all([open('main'), open('two')])
    for (const bucket of [one, other]) await until(() => isLeased(bucket), 'no lease', 15_000)
    await two.kill()
    try {
      await until(async () => !(await isLeased(other)), 'a lease without a server', 15_000)
      const began = Date.now()
      assert.equal((await claimFor(ground, one, people(50))).length, 50)
      await untilIssued(one, 50)
      assert.ok(Date.now() - began < 10_000, 'the other’s absence held it up')
      const seen = (await snapshot(ground.deps.runner, one))!.leaseUntilMs
      const renewed = async () => (await snapshot(ground.deps.runner, one))!.leaseUntilMs > seen
      await until(renewed, 'its lease is not renewed', 10_000)
    } finally {
      await two.restart()
    }
    await until(() => isLeased(other), 'it came back and got no lease', 20_000)
    assert.equal((await claimFor(ground, other, people(10))).length, 10)
    await untilIssued(other, 10)
    // Acknowledged after the commit that the ledger shows.
    const { client } = ground.deps.stores.of(other.campaignId)
    await until(async () => (await client.xlen(logKey(other))) === 0, 'its log is not emptied', 10_000)
  })

  it('are asked for no campaign of a store that is not configured', async () => {
    const nowhere = { campaignId: `${'c'.padEnd(25, '.')}-gone`, bucket: 0 }
    await assert.rejects(
      snapshot(ground.deps.runner, nowhere),
      (error: Error) => error instanceof ArbiterError && error.failure === 'refused',
    )
  })
})

describe('a new campaign', () => {
  let rig: Rig
  before(async () => {
    rig = await makeRig(undefined, undefined, { REDIS_STORES: JSON.stringify({ two: two.url }) })
  })
  after(() => rig?.close())

  const create = (extra: object) =>
    rig.post('operator:olga', '/admin/v1/campaigns', {
      name: 'Stored',
      quota: 10,
      per_user_limit: 1,
      starts_at: new Date().toISOString(),
      ends_at: new Date(Date.now() + 3_600_000).toISOString(),
      time_zone: 'UTC',
      rules: {
        benefit: {
          kind: 'amount_off',
          amount: { currency: 'CNY', minor: '1' },
          threshold: { currency: 'CNY', minor: '1' },
        },
        validity: { kind: 'days', days: 1 },
      },
      ...extra,
    })

  it('goes to the store with the fewest, or to the one that the operator names; its id says which', async () => {
    const stores: unknown[] = []
    for (const extra of [{}, {}, { store: 'two' }, {}, {}]) {
      const { status, body } = await create(extra)
      assert.equal(status, 201, JSON.stringify(body))
      assert.equal(storeOfCampaign(body['id'] as string), body['store'])
      stores.push(body['store'])
    }
    assert.deepEqual(stores, ['main', 'two', 'two', 'main', 'main'])
  })

  it('is refused for a store that there isn’t, with those that there are', async () => {
    const { status, body } = await create({ store: 'three' })
    assert.equal(status, 400)
    assert.match(String(body['detail']), /main, two/)
  })
})
