import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { enterBallot } from '../../lua/claim.ts'
import { inspect, renewLease } from '../../lua/stock.ts'
import { type BallotRecord, entrantOf, seedHashOf, verifyBallot } from '../../schema/ballot.ts'
import { bucketOf } from '../../schema/hash.ts'
import { startDrain } from '../claim/drain.ts'
import { openRuleBook } from '../claim/rules.ts'
import { claimArgs } from '../claim/testing.ts'
import type { Deps } from '../deps.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { type Published, publishedCampaign, until } from '../stock/testing.ts'
import { drawCrypto } from './crypto.ts'
import { ballotRound } from './keeper.ts'
import { settleBallot } from './settle.ts'

let rig: Rig
before(async () => {
  rig = await makeRig()
})
after(() => rig.close())

const buckets = 2
const settling = (deps: Deps = rig.deps) => ({ ...deps, ruleBook: openRuleBook(rig.deps.db.admin) })
const show = async (id: string) => {
  const response = await rig.app.request(`/v1/campaigns/${id}/ballot`)
  return { status: response.status, body: (await response.json()) as BallotRecord & { state: string } }
}

/** A published ballot whose users have entered; their entries stand in the ledger, and its window is over. */
async function entered(quota: number, users: readonly string[], rules: object = {}): Promise<Published> {
  const made = await publishedCampaign(rig, {
    mode: 'ballot',
    quota,
    bucket_count: buckets,
    rules: {
      benefit: { kind: 'free_shipping', threshold: { currency: 'CNY', minor: '0' } },
      validity: { kind: 'days', days: 7 },
      ...rules,
    },
  })
  for (let bucket = 0; bucket < buckets; bucket++) {
    await renewLease(rig.deps.runner, { campaignId: made.id, bucket }, 60_000, true)
    const mine = users.filter((user) => bucketOf(user, made.id, buckets) === bucket)
    for (let at = 0; at < mine.length; at += 64) {
      const entries = mine.slice(at, at + 64).map((user) => {
        const { userId, packed } = claimArgs(user)
        return { userId, packed: `${packed.slice(0, 35)}B` }
      })
      const { verdicts } = await enterBallot(rig.deps.runner, { campaignId: made.id, bucket }, entries)
      assert.ok(verdicts.every(({ decision }) => decision === 'ACCEPTED'))
    }
  }
  const drain = startDrain(rig.deps)
  try {
    await until('all entries are in the ledger', async () => {
      const [row] = await rig.deps.db.admin.sql<{ n: number }[]>`
        SELECT count(*) AS n FROM claims WHERE campaign_id = ${made.id} AND status = 'PROCESSING'`
      return row!.n === users.length
    })
  } finally {
    await drain.stop()
  }
  return made
}

const people = (count: number) => Array.from({ length: count }, (_, i) => `entrant-${i}`)

async function resultsOf(id: string) {
  return rig.deps.db.admin.sql<{ user_id: string; status: string; reason: string | null; told: string[] }[]>`
    SELECT c.user_id, c.status, c.reason,
      (SELECT array_agg(o.type) FROM outbox o WHERE o.request_id = c.request_id) AS told
    FROM claims c WHERE c.campaign_id = ${id}`
}

/** Winners have one coupon, the others a reason; both were told once; Redis and the stock agree. */
async function assertSettled(id: string, record: BallotRecord, quota: number) {
  const won = new Set(record.winners)
  for (const row of await resultsOf(id)) {
    const winner = won.has(entrantOf(drawCrypto, id, row.user_id))
    assert.deepEqual(
      [row.status, row.reason, row.told],
      winner
        ? ['DELIVERED', null, ['claim.delivered']]
        : ['REJECTED', 'REJECTED_NOT_CHOSEN', ['claim.rejected']],
    )
    const bucket = { campaignId: id, bucket: bucketOf(row.user_id, id, buckets) }
    const [acceptance] = (await inspect(rig.deps.runner, bucket, row.user_id))!
    assert.equal(acceptance?.state, winner ? 'D' : 'X')
  }
  const [coupons] = await rig.deps.db.admin.sql<{ n: number }[]>`
    SELECT count(*) AS n FROM coupons WHERE campaign_id = ${id}`
  const [stock] = await rig.deps.db.admin.sql<{ issued: number; unallocated: number }[]>`
    SELECT issued, unallocated FROM campaign_stock WHERE campaign_id = ${id}`
  assert.deepEqual([coupons!.n, stock!.issued, stock!.unallocated], [won.size, won.size, quota - won.size])
}

test('a ballot from its published seed hash to coupons, by a draw that anyone can repeat (CL19)', async () => {
  const users = people(60)
  const made = await entered(25, users)
  const open = await show(made.id)
  assert.deepEqual([open.status, open.body.state, open.body.seed], [200, 'OPEN', undefined])
  const early = await made.command('operator:olga', 'draw')
  assert.deepEqual([early.status, early.body['detail']], [409, 'Its window is not over.'])
  await made.command('operator:olga', 'end')
  const drawn = await made.command('operator:olga', 'draw', { reason: 'it is over' })
  assert.equal(drawn.status, 200, drawn.text)
  assert.equal(await ballotRound(settling()), 1)
  const { body: record } = await show(made.id)
  assert.equal(record.state, 'SETTLED')
  assert.equal(seedHashOf(drawCrypto, record.seed), open.body.seed_hash)
  assert.deepEqual(verifyBallot(drawCrypto, record), [])
  assert.deepEqual(record.entrants, users.map((user) => entrantOf(drawCrypto, made.id, user)).sort())
  await assertSettled(made.id, record, 25)
  const again = await made.command('operator:olga', 'draw')
  assert.deepEqual([again.status, again.body['detail']], [409, 'The ballot is SETTLED.'])
})

test('a settlement that dies again and again ends as the draw said, with nobody told twice', async () => {
  const made = await entered(10, people(40))
  await made.command('operator:olga', 'end')
  await made.command('operator:olga', 'draw')
  let fails = 0
  const dying: Deps = {
    ...rig.deps,
    runner: {
      run: (...args) => {
        if (++fails % 2 === 1) throw new Error('the process died')
        return rig.deps.runner.run(...args)
      },
    },
    db: {
      ...rig.deps.db,
      admin: {
        ...rig.deps.db.admin,
        transaction: (work) =>
          rig.deps.db.admin.transaction(async (tx) => {
            const result = await work(tx)
            if (++fails % 3 === 1) throw new Error('the process died before its commit')
            return result
          }),
      },
    },
  }
  for (let attempt = 0; attempt < 10; attempt++)
    await settleBallot(settling(dying), made.id).catch(() => undefined)
  await settleBallot(settling(), made.id)
  const { body: record } = await show(made.id)
  assert.equal(record.state, 'SETTLED')
  await assertSettled(made.id, record, 10)
})

test('a ballot that nobody draws is drawn by itself after a delay; fewer entrants than coupons all win', async () => {
  const made = await entered(50, people(5))
  const later = (ms: number) => settling({ ...rig.deps, clock: () => Date.now() + ms })
  await made.command('operator:olga', 'end')
  await ballotRound(later(30_000))
  assert.equal((await show(made.id)).body.state, 'OPEN')
  await ballotRound(later(61_000))
  const { body: record } = await show(made.id)
  assert.deepEqual([record.state, record.winners.length], ['SETTLED', 5])
  await assertSettled(made.id, record, 50)
})

test('a ballot voided before its draw rejects every entry, and never shows its seed', async () => {
  const made = await entered(5, people(12))
  await made.command('approver:anna', 'void', { reason: 'a mistake' })
  await ballotRound(settling())
  const { body } = await show(made.id)
  assert.deepEqual([body.state, body.seed], ['CANCELLED', undefined])
  const rows = await resultsOf(made.id)
  assert.equal(rows.length, 12)
  for (const row of rows)
    assert.deepEqual(
      [row.status, row.reason, row.told],
      ['REJECTED', 'REJECTED_CANCELLED', ['claim.rejected']],
    )
})

test('entries that are not in the ledger yet hold up the draw', async () => {
  const made = await entered(5, people(3))
  const { userId, packed } = claimArgs('late')
  const entry = { userId, packed: `${packed.slice(0, 35)}B` }
  await enterBallot(rig.deps.runner, { campaignId: made.id, bucket: 0 }, [entry])
  await made.command('operator:olga', 'end')
  const answer = await made.command('operator:olga', 'draw')
  assert.deepEqual([answer.status, answer.body['code']], [409, 'CONFLICT'])
  assert.match(answer.body['detail'] as string, /still being recorded/)
})

test('the view shows the seed’s hash from the start, and a ballot is never sold out', async () => {
  const made = await publishedCampaign(rig, { mode: 'ballot' })
  const response = await rig.app.request(`/internal/v1/campaigns/${made.id}`, {
    headers: { 'Tidegate-Assertion': rig.assertion('') },
  })
  const body = (await response.json()) as { mode: string; sold_out: boolean; ballot: { seed_hash: string } }
  assert.deepEqual([response.status, body.mode, body.sold_out], [200, 'ballot', false], JSON.stringify(body))
  assert.match(body.ballot.seed_hash, /^[0-9a-f]{64}$/)
  const plain = await publishedCampaign(rig, {})
  assert.equal((await show(plain.id)).status, 404)
})
