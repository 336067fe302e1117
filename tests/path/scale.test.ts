import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { Cluster } from 'ioredis'
import postgres from 'postgres'
import { audit, type Told } from '../../loadtest/audit/audit.ts'
import { openCampaign } from '../../loadtest/traffic/campaign.ts'
import { HttpClient } from '../../loadtest/traffic/client.ts'
import { encodeClaim, type Shopper } from '../../loadtest/traffic/shoppers.ts'
import { limits } from '../../schema/limits.ts'
import { parseKeyring } from '../../schema/sealed.ts'
import { sealAssertion } from '../../schema/tokens.ts'
import { type Stack, startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { eventually, gather, openSse } from './wait.ts'

/**
 * The whole path spread out (SC1 to SC3): a cluster of three masters with replicas and a second Redis, three core
 * processes, two worker runtimes.
 */
describe('the whole path, spread out', () => {
  let stack: Stack
  let sql: postgres.Sql
  let clients: HttpClient[]
  const buckets = 8
  before(async () => {
    stack = await startStack({
      dir: temporaryFolder('scale'),
      scale: { cluster: { masters: 3, replicas: 3 }, stores: ['two'], cores: 3, workers: 2 },
    })
    sql = postgres(stack.endpoints.postgres, { max: 2, onnotice: () => undefined })
    clients = stack.scaled.edges.map((url) => new HttpClient(url, 32))
  })
  after(async () => {
    for (const client of clients ?? []) client.close()
    await sql?.end({ timeout: 5 })
    await stack?.stop()
  })

  async function opened(quota: number, wish: { store: string; bucketCount?: number }, shoppers: number) {
    const now = Date.now()
    const campaignId = await openCampaign(stack, {
      ...{ name: 'Spread', quota, startsAtMs: now - 1_000, endsAtMs: now + 3_600_000 },
      ...wish,
    })
    return { campaignId, people: await gather(stack, clients[0]!, campaignId, shoppers) }
  }

  /** Asks again for as long as the gate has no lease, by the worker runtimes in turn. */
  async function claimAll(campaignId: string, people: readonly Shopper[]): Promise<Told[]> {
    const told: Told[] = []
    await Promise.all(
      people.map((shopper, i) =>
        eventually(
          `the claim of ${shopper.userId}`,
          async () => {
            const client = clients[i % clients.length]!
            const reply = await client.send(encodeClaim(client, campaignId, shopper))
            const body = JSON.parse(reply.body) as { request_id: string; code?: string }
            if (reply.status === 202) told.push({ userId: shopper.userId, requestId: body.request_id })
            return reply.status === 202
          },
          60_000,
        ),
      ),
    )
    return told
  }

  async function assertSound(campaignId: string, told: Told[], redisUrl: string): Promise<void> {
    await eventually('every acceptance is settled and at rest', async () => {
      const [row] = await sql`
        SELECT count(*)::int AS n FROM claims WHERE campaign_id = ${campaignId} AND status = 'DELIVERED'`
      return Number(row!['n']) === told.length
    })
    const verdict = await audit({ databaseUrl: stack.endpoints.postgres, redisUrl, campaignId, told })
    assert.deepEqual(verdict.violations, [])
  }

  it('accepts on both worker runtimes and delivers each claim once, on the cluster and on the second Redis', async () => {
    const two = stack.scaled.stores[0]!
    const spread = await opened(400, { store: 'main', bucketCount: buckets }, 200)
    const single = await opened(100, { store: 'two' }, 50)
    assert.match(single.campaignId, /-two$/)
    const [told, other] = await Promise.all([
      claimAll(spread.campaignId, spread.people),
      claimAll(single.campaignId, single.people),
    ])
    await assertSound(spread.campaignId, told, stack.endpoints.redis)
    await assertSound(single.campaignId, other, two.redis)
    // The auditor would say so if it looked for a campaign's gates in the wrong Redis.
    const wrong = await audit({
      ...{ databaseUrl: stack.endpoints.postgres, redisUrl: two.redis },
      ...{ campaignId: spread.campaignId, told },
    })
    assert.notDeepEqual(wrong.violations, [])
  })

  it('issues each claim in one of its core processes', async () => {
    const issued = () =>
      Promise.all(
        stack.scaled.cores.map(async (url) => {
          const text = await (await fetch(`${url}/metrics`)).text()
          return Number(/^tidegate_coupons_issued_total (\d+)/m.exec(text)?.[1] ?? 0)
        }),
      )
    const sumOf = (counts: number[]) => counts.reduce((sum, count) => sum + count, 0)
    // A process counts just after its transaction, which is what was waited for.
    await eventually('all are counted', async () => sumOf(await issued()) >= 250)
    const counts = await issued()
    assert.equal(sumOf(counts), 250, `each claim was issued by one of them: ${counts.join(', ')}`)
  })

  it('tells a result to a stream on each core process, whichever issued it', async () => {
    const { campaignId, people } = await opened(10, { store: 'main', bucketCount: 2 }, 1)
    const { userId } = people[0]!
    const ring = parseKeyring(
      'EDGE_CORE_KEYS',
      stack.keys.edgeCoreKeys,
      (secret) => (text) => createHmac('sha256', secret).update(text).digest('base64url'),
    )
    const headers = { 'Tidegate-Assertion': sealAssertion(userId, Date.now(), ring) }
    const streams = await Promise.all(
      stack.scaled.cores.map((url) => openSse(`${url}/v1/me/events`, 90_000, headers)),
    )
    const heard = streams.map((stream) => stream.first(/^claim\.delivered$/))
    const told = await claimAll(campaignId, people)
    for (const event of await Promise.all(heard)) assert.equal(event.data['request_id'], told[0]!.requestId)
  })

  it('has its leases renewed by three guardians, to the same effect as by one', async () => {
    const [row] = await sql`SELECT campaign_id FROM campaigns WHERE bucket_count = ${buckets}`
    const nodes = stack.endpoints.redis
      .split(',')
      .map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }))
    const cluster = new Cluster(nodes)
    try {
      const gates = Array.from(
        { length: buckets },
        (_, bucket) => `tg:{${row!['campaign_id']}:${bucket}}:gate`,
      )
      const leases = async () =>
        (await Promise.all(gates.map((key) => cluster.hmget(key, 'lease_until', 'epoch')))).map((found) =>
          found.map(Number),
        )
      const first = await leases()
      await eventually('every lease is renewed', async () =>
        (await leases()).every(([until], i) => until! > first[i]![0]!),
      )
      for (const [i, [until, epoch]] of (await leases()).entries()) {
        assert.ok(until! <= Date.now() + limits.leaseMs + 1_000)
        assert.equal(epoch, first[i]![1], 'nobody moved the epoch')
      }
    } finally {
      cluster.disconnect()
    }
  })

  it('goes on when a core process is killed, and when a master is killed and its replica promoted', async () => {
    const { campaignId, people } = await opened(400, { store: 'main', bucketCount: buckets }, 120)
    const told = await claimAll(campaignId, people.slice(0, 40))
    await Promise.all([
      stack.scaled.parts.get('core-2')!.kill(),
      stack.scaled.parts.get('redis-node-1')!.kill(),
    ])
    const ready = await fetch(`${stack.scaled.cores[0]}/readyz`)
    assert.equal(ready.status, 200, 'the others are in service while one node is away')
    told.push(...(await claimAll(campaignId, people.slice(40))))
    assert.equal(told.length, people.length)
    await assertSound(campaignId, told, stack.endpoints.redis)
  })
})
