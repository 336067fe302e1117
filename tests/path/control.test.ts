import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { drawCrypto } from '../../core/ballot/crypto.ts'
import { answerOf } from '../../core/rig.test.ts'
import { publishedCampaign } from '../../core/stock/testing.ts'
import { HttpClient, type Reply } from '../../loadtest/traffic/client.ts'
import { encodeClaim, type Shopper } from '../../loadtest/traffic/shoppers.ts'
import { type BallotRecord, entrantOf, seedHashOf, verifyBallot } from '../../schema/ballot.ts'
import { type Stack, startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { eventually, gather, sseEvent, withinOnce } from './wait.ts'

/** Operators' commands while people claim, through the whole path: worker runtime, gateway, Redis, core, Postgres. */
describe('commands while people claim', () => {
  let stack: Stack
  let client: HttpClient
  before(async () => {
    stack = await startStack({ dir: temporaryFolder('control') })
    client = new HttpClient(stack.endpoints.edge, 64)
  })
  after(async () => {
    client?.close()
    await stack?.stop()
  })

  const admin = {
    async post(who: string, path: string, body?: unknown, headers?: Record<string, string>) {
      const [role, user] = who.split(':') as [string, string]
      const login = await stack.mintLogin({ user, role })
      const response = await fetch(stack.endpoints.core + path, {
        method: 'POST',
        headers: {
          Authorization: `Bearer ${login}`,
          'Content-Type': 'application/json',
          'Idempotency-Key': randomUUID(),
          ...headers,
        },
        body: JSON.stringify(body ?? {}),
      })
      return answerOf(response)
    },
  }
  const send = (id: string, shopper: Shopper) => client.send(encodeClaim(client, id, shopper))
  const json = (reply: Reply) => JSON.parse(reply.body) as Record<string, string>
  const anew = (shopper: Shopper): Shopper => ({ ...shopper, idempotencyKey: randomUUID() })

  /** The first claim that is not turned away for want of a lease. */
  async function firstClaim(id: string, shopper: Shopper): Promise<Reply> {
    let reply: Reply | undefined
    await eventually('the gate has its lease', async () => {
      reply = await send(id, shopper)
      return json(reply)['code'] !== 'BUSY'
    })
    return reply!
  }

  it('a pause is felt by the last of 20 buckets and every warm isolate within 1 s (IS12, case-L5)', () =>
    withinOnce(1_000, async () => {
      const made = await publishedCampaign(admin, { quota: 20_000, bucket_count: 20 })
      const people = await gather(stack, client, made.id, 1_500)
      assert.equal((await firstClaim(made.id, people[0]!)).status, 202)
      let next = 1
      let lastAccepted = 0
      let paused = 0
      const load = Array.from({ length: 16 }, async () => {
        while (next < people.length && paused < 200) {
          const reply = await send(made.id, people[next++]!)
          if (reply.status === 202) lastAccepted = performance.now()
          else if (json(reply)['code'] === 'PAUSED') paused++
        }
      })
      await eventually('claims flow', async () => lastAccepted > 0)
      const commandedAt = performance.now()
      const answer = await made.command('approver:anna', 'pause', { reason: 'stop' })
      await Promise.all(load)
      assert.equal(answer.status, 200, answer.text)
      assert.equal((answer.body['buckets'] as unknown[]).length, 20)
      assert.notEqual(answer.body['closed_at'], null)
      // All were through before: nothing was seen.
      return paused > 0 ? lastAccepted - commandedAt : Number.POSITIVE_INFINITY
    }))

  it('an increase is felt at the edge within 1 s of its answer, also where SOLD_OUT was remembered (CL6)', () =>
    withinOnce(1_000, async () => {
      const made = await publishedCampaign(admin, { quota: 1 })
      const people = await gather(stack, client, made.id, 40)
      assert.equal((await firstClaim(made.id, people[0]!)).status, 202)
      for (const shopper of people.slice(1, 21))
        assert.equal(json(await send(made.id, anew(shopper)))['code'], 'SOLD_OUT')
      const more = await made.command('approver:anna', 'increases', { amount: 10, reason: 'many came' })
      const answeredAt = performance.now()
      assert.equal(more.status, 200, more.text)
      let at = 21
      // It counts when the claim is sent that finds it: a machine may stall before its answer is here.
      let sentAt = answeredAt
      await eventually('claims succeed again', async () => {
        sentAt = performance.now()
        return (await send(made.id, anew(people[at++ % people.length]!))).status === 202
      })
      return sentAt - answeredAt
    }))

  it('a ballot from its published seed hash to told winners, verified by anyone (CL19)', async () => {
    const made = await publishedCampaign(admin, { mode: 'ballot', quota: 7, bucket_count: 2 })
    const seen = (await (await fetch(`${stack.endpoints.edge}/v1/campaigns/${made.id}`)).json()) as {
      mode: string
      ballot: { seed_hash: string }
    }
    assert.equal(seen.mode, 'ballot')
    const people = await gather(stack, client, made.id, 30)
    await firstClaim(made.id, people[0]!)
    const entries = await Promise.all(
      people.map(async (shopper) => {
        // The other bucket may get its lease a moment later.
        const reply = await firstClaim(made.id, shopper)
        assert.equal(reply.status, 202, reply.body)
        return { shopper, events: stack.endpoints.edge + json(reply)['events_url'] }
      }),
    )
    const told = Promise.all(
      entries.map(({ events }) => sseEvent(events, /^claim\.(delivered|rejected)$/, 60_000)),
    )
    assert.equal((await made.command('operator:olga', 'end')).status, 200)
    await eventually('all entries are in the ledger, and it is drawn', async () => {
      return (await made.command('operator:olga', 'draw')).status === 200
    })
    const results = await told
    const path = `${stack.endpoints.core}/v1/campaigns/${made.id}/ballot`
    const record = (await (await fetch(path)).json()) as BallotRecord
    assert.equal(seedHashOf(drawCrypto, record.seed), seen.ballot.seed_hash)
    assert.deepEqual(verifyBallot(drawCrypto, record), [])
    assert.deepEqual([record.entrants.length, record.winners.length], [30, 7])
    for (const [i, { shopper }] of entries.entries()) {
      const won = record.winners.includes(entrantOf(drawCrypto, made.id, shopper.userId))
      assert.equal(results[i]!.type, won ? 'claim.delivered' : 'claim.rejected')
      if (!won) assert.equal(results[i]!.data['reason'], 'REJECTED_NOT_CHOSEN')
    }
  })
})
