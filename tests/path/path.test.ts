import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import postgres from 'postgres'
import { audit, type Told } from '../../loadtest/audit/audit.ts'
import { openCampaign } from '../../loadtest/traffic/campaign.ts'
import { HttpClient, type Reply } from '../../loadtest/traffic/client.ts'
import { encodeClaim, type Shopper } from '../../loadtest/traffic/shoppers.ts'
import { limits } from '../../schema/limits.ts'
import { type Stack, startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { eventually, gather, sseEvent } from './wait.ts'

/** The whole path on real parts: worker runtime, gateway, Redis, core, Postgres, each a process of its own. */
describe('the whole path', () => {
  let stack: Stack
  let client: HttpClient
  let sql: postgres.Sql
  before(async () => {
    stack = await startStack({ dir: temporaryFolder('path') })
    client = new HttpClient(stack.endpoints.edge, 128)
    sql = postgres(stack.endpoints.postgres, { max: 2, onnotice: () => undefined })
  })
  after(async () => {
    client?.close()
    await sql?.end({ timeout: 5 })
    await stack?.stop()
  })

  const send = (campaignId: string, shopper: Shopper) => client.send(encodeClaim(client, campaignId, shopper))
  const json = (reply: Reply) => JSON.parse(reply.body) as Record<string, string>

  /** An open campaign with shoppers who have their tokens; the first lease has come. */
  async function opened(quota: number, shoppers: number) {
    const now = Date.now()
    const campaignId = await openCampaign(stack, {
      name: 'Path',
      quota,
      startsAtMs: now - 1000,
      endsAtMs: now + 3_600_000,
    })
    const people = await gather(stack, client, campaignId, shoppers)
    await eventually('the gate has its lease', async () => {
      const [row] = await sql`SELECT primed_at FROM buckets WHERE campaign_id = ${campaignId}`
      if (!row?.['primed_at']) return false
      const gate = await leaseOf(campaignId)
      return gate > Date.now()
    })
    return { campaignId, people }
  }

  async function leaseOf(campaignId: string): Promise<number> {
    const response = await fetch(stack.endpoints.gateway, {
      method: 'POST',
      headers: { Authorization: `Bearer ${stack.keys.gatewayToken}` },
      body: JSON.stringify(['HGET', `tg:{${campaignId}:0}:gate`, 'lease_until']),
    })
    return Number(((await response.json()) as { result: string }).result)
  }

  /** Waits until all are settled, then checks every invariant by the independent auditor. */
  async function auditClean(campaignId: string, told: Told[]) {
    await eventually('every acceptance is settled', async () => {
      const [row] = await sql`
        SELECT count(*)::int AS n FROM claims
        WHERE campaign_id = ${campaignId} AND status IN ('DELIVERED', 'REJECTED')`
      return Number(row!['n']) >= told.length
    })
    const verdict = await audit({
      databaseUrl: stack.endpoints.postgres,
      redisUrl: stack.endpoints.redis,
      campaignId,
      told,
    })
    assert.deepEqual(verdict.violations, [])
    return verdict
  }

  it('one key many times at once is one request (A4 §15.1-1, case-B3)', async () => {
    const { campaignId, people } = await opened(10, 1)
    const replies = await Promise.all(Array.from({ length: 50 }, () => send(campaignId, people[0]!)))
    assert.deepEqual(new Set(replies.map((reply) => reply.status)), new Set([202]))
    assert.equal(new Set(replies.map((reply) => reply.body)).size, 1)
    assert.equal(replies.filter((reply) => /idempotency-replayed: true/i.test(reply.head)).length, 49)
    await auditClean(campaignId, [{ userId: people[0]!.userId, requestId: json(replies[0]!)['request_id']! }])
  })

  it('many keys of one user at once are one coupon (A4 §15.1-2)', async () => {
    const { campaignId, people } = await opened(10, 1)
    const again = await Promise.all(
      Array.from({ length: 15 }, async () => {
        const login = await stack.mintLogin({ user: people[0]!.userId })
        const reply = await client.send(
          client.encode('POST', `/v1/campaigns/${campaignId}/claim-tokens`, {
            Authorization: `Bearer ${login}`,
            'Device-Id': people[0]!.deviceId,
          }),
        )
        return { ...people[0]!, idempotencyKey: crypto.randomUUID(), claimToken: json(reply)['claim_token']! }
      }),
    )
    const replies = await Promise.all(again.map((shopper) => send(campaignId, shopper)))
    const accepted = replies.filter((reply) => reply.status === 202)
    assert.equal(accepted.length, 1)
    const codes = replies.filter((reply) => reply.status !== 202).map((reply) => json(reply)['code'])
    assert.deepEqual(new Set(codes), new Set(['LIMIT_REACHED']))
    await auditClean(campaignId, [
      { userId: people[0]!.userId, requestId: json(accepted[0]!)['request_id']! },
    ])
  })

  it('100 claims at once for the last coupon have one winner (A4 §15.1-3, case-A8)', async () => {
    const { campaignId, people } = await opened(1, 100)
    const replies = await Promise.all(people.map((shopper) => send(campaignId, shopper)))
    const won = replies.flatMap((reply, i) => (reply.status === 202 ? [i] : []))
    assert.equal(won.length, 1)
    const codes = replies.filter((reply) => reply.status !== 202).map((reply) => json(reply)['code'])
    assert.deepEqual(new Set(codes), new Set(['SOLD_OUT']))
    const verdict = await auditClean(campaignId, [
      { userId: people[won[0]!]!.userId, requestId: json(replies[won[0]!]!)['request_id']! },
    ])
    assert.deepEqual([verdict.identity['issued'], verdict.identity['remaining']], [1, 0])
  })

  it('a token replayed with another key is refused (CL3, case-K7)', async () => {
    const { campaignId, people } = await opened(10, 1)
    const first = await send(campaignId, people[0]!)
    assert.equal(first.status, 202)
    const second = await send(campaignId, { ...people[0]!, idempotencyKey: crypto.randomUUID() })
    assert.deepEqual([second.status, json(second)['code']], [409, 'TOKEN_USED'])
  })

  it('an acceptance becomes a coupon, told by its stream, its status and the wallet (CL13, CL16)', async () => {
    const { campaignId, people } = await opened(10, 1)
    const accepted = json(await send(campaignId, people[0]!))
    const event = await sseEvent(
      stack.endpoints.edge + accepted['events_url'],
      /^claim\.(delivered|rejected)$/,
    )
    assert.equal(event.type, 'claim.delivered')
    assert.equal(event.data['request_id'], accepted['request_id'])
    const status = await client.send(client.encode('GET', accepted['status_url']!))
    assert.deepEqual(
      [json(status)['status'], json(status)['coupon_id']],
      ['DELIVERED', event.data['coupon_id']],
    )
    const login = await stack.mintLogin({ user: people[0]!.userId })
    const wallet = await client.send(
      client.encode('GET', '/v1/me/coupons', { Authorization: `Bearer ${login}` }),
    )
    const { data } = JSON.parse(wallet.body) as { data: { coupon_id: string; state: string }[] }
    assert.deepEqual(
      data.map((coupon) => [coupon.coupon_id, coupon.state]),
      [[event.data['coupon_id'], 'AVAILABLE']],
    )
    const stranger = await stack.mintLogin({ user: 'a-stranger' })
    const peek = await client.send(
      client.encode('GET', `/v1/claims/${accepted['request_id']}`, { Authorization: `Bearer ${stranger}` }),
    )
    assert.deepEqual([peek.status, json(peek)['code']], [404, 'CLAIM_NOT_FOUND'])
  })

  it('the core killed again and again while claims flow: every acceptance is delivered once (IS1)', async () => {
    const { campaignId, people } = await opened(400, 400)
    const told: Told[] = []
    let done = false
    const killer = (async () => {
      while (!done) {
        const lease = await leaseOf(campaignId)
        await stack.part('core').kill()
        await stack.part('core').restart()
        // Killed before it has renewed the lease each time, it would let nobody through.
        await eventually('the core renews the lease', async () => done || (await leaseOf(campaignId)) > lease)
      }
    })()
    for (let at = 0; at < people.length; at += 20) {
      await Promise.all(
        people.slice(at, at + 20).map(async (shopper) => {
          const end = Date.now() + 60_000
          for (;;) {
            const reply = await send(campaignId, shopper)
            if (reply.status === 202) {
              told.push({ userId: shopper.userId, requestId: json(reply)['request_id']! })
              return
            }
            // No lease while the core is away: BUSY, and the same key later.
            assert.ok(['BUSY', 'OUTCOME_UNKNOWN'].includes(json(reply)['code']!), reply.body)
            if (Date.now() > end) throw new Error('never accepted')
            await new Promise((resolve) => setTimeout(resolve, 100))
          }
        }),
      )
    }
    done = true
    await killer
    assert.equal(told.length, 400)
    const verdict = await auditClean(campaignId, told)
    assert.equal(verdict.identity['issued'], 400)
  })

  it('Postgres away: claims are accepted until the lease says stop, and delivered once it is back', async () => {
    const refusals = new Set<string>()
    const claimAway = async () => {
      const { campaignId, people } = await opened(50, 50)
      await stack.part('postgres').stop()
      const told: Told[] = []
      for (const shopper of people) {
        const reply = await send(campaignId, shopper)
        if (reply.status === 202) told.push({ userId: shopper.userId, requestId: json(reply)['request_id']! })
        else refusals.add(json(reply)['code']!)
      }
      return { campaignId, people, told }
    }
    let away = await claimAway()
    // On a busy machine Postgres may take as long to stop as a lease lasts.
    for (let tries = 1; tries < 4 && away.told.length === 0; tries++) {
      await stack.part('postgres').start()
      away = await claimAway()
    }
    const { campaignId, people, told } = away
    assert.ok(told.length > 0, 'the lease still ran')
    await eventually('the lease runs out', async () => {
      const reply = await send(campaignId, { ...people[0]!, idempotencyKey: crypto.randomUUID() })
      // The first user's claim stands; what matters is whether a new acceptance is possible.
      assert.ok([409, 503].includes(reply.status), reply.body)
      return (await leaseOf(campaignId)) <= Date.now()
    })
    await stack.part('postgres').start()
    await auditClean(campaignId, told)
    assert.ok([...refusals].every((code) => code === 'BUSY'))
  })

  it('Redis away: 503 with Retry-After within the deadline, and the same key succeeds once it is back', async () => {
    const { campaignId, people } = await opened(5, 1)
    await stack.part('redis').stop()
    const began = Date.now()
    const away = await send(campaignId, people[0]!)
    assert.equal(away.status, 503)
    assert.match(away.head, /\r\nretry-after: \d+/i)
    assert.ok(Date.now() - began < limits.claimDeadlineMs + 3_000)
    await stack.part('redis').start()
    let last: Reply | undefined
    await eventually('the claim is accepted', async () => {
      last = await send(campaignId, people[0]!)
      return last.status === 202
    })
    await auditClean(campaignId, [{ userId: people[0]!.userId, requestId: json(last!)['request_id']! }])
  })
})
