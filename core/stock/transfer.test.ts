import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import fc from 'fast-check'
import { type Bucket, movesKey } from '../../lua/keys.ts'
import { ArbiterError, type ScriptRunner } from '../../lua/runner.ts'
import { prime } from '../../lua/stock.ts'
import { deposit } from '../../lua/transfer.ts'
import { transferMachine } from '../../schema/states.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { claimFor, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import type { Deps } from '../deps.ts'
import type { Move } from './tail.ts'
import { leaseAll, readBalance } from './testing.ts'
import { advanceTransfers, movesOf, planTransfers, resumeTransfers } from './transfer.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
})
after(async () => {
  await ground.close()
  await Promise.all([database.drop(), discard(redis)])
})

const bucketCount = 3
const each = 20

/** Three buckets of 20, and 20 unallocated. */
async function opened(): Promise<string> {
  const { campaignId } = await openCampaign(ground, { quota: each })
  const { sql, deps } = ground
  await sql`UPDATE campaigns SET quota = ${4 * each}, bucket_count = 3 WHERE campaign_id = ${campaignId}`
  await sql`
    UPDATE campaign_stock SET quota = ${4 * each}, unallocated = ${each} WHERE campaign_id = ${campaignId}`
  const [row] = await sql`SELECT starts_at, ends_at FROM campaigns WHERE campaign_id = ${campaignId}`
  for (let bucket = 1; bucket < bucketCount; bucket++) {
    await sql`
      INSERT INTO buckets (campaign_id, bucket, allocated, primed_at, config_version)
      VALUES (${campaignId}, ${bucket}, ${each}, now(), 1)`
    const config = {
      configVersion: 1,
      state: 'ACTIVE' as const,
      ruleVersion: 1,
      startsAtMs: row!['starts_at'].getTime(),
      endsAtMs: row!['ends_at'].getTime(),
      perUserLimit: 1,
    }
    await prime(deps.runner, { campaignId, bucket }, config, { epoch: 1, amount: each, final: false })
  }
  await leaseAll(deps, campaignId, bucketCount)
  return campaignId
}

const plan = (campaignId: string, moves: readonly Move[]) =>
  ground.deps.db.admin.transaction((tx) => planTransfers(tx, campaignId, 'rebalance', moves, Date.now()))

/** Redis does it or not, and its answer is lost or not: as a process that dies before or after it asked. */
type Crash = 'none' | 'before' | 'after'
function crashing(deps: Deps, crashes: Crash[]): Deps {
  const runner: ScriptRunner = {
    async run(script, keys, args) {
      const crash = crashes.shift() ?? 'none'
      if (crash === 'before') throw new ArbiterError('unknown', 'the process died before it asked')
      const reply = await deps.runner.run(script, keys, args)
      if (crash === 'after') throw new ArbiterError('unknown', 'the process died after it asked')
      return reply
    },
  }
  return { ...deps, runner }
}

async function assertConserved(campaignId: string): Promise<void> {
  const balance = await readBalance(ground.deps, campaignId)
  assert.equal(
    balance.unallocated + balance.allocated + balance.inTransit,
    balance.quota,
    `the ledger adds up: ${JSON.stringify(balance)}`,
  )
}

/** Nothing is open: then also the gates add up. */
async function assertAtRest(campaignId: string): Promise<void> {
  await assertConserved(campaignId)
  const balance = await readBalance(ground.deps, campaignId)
  assert.equal(balance.inTransit, 0)
  assert.equal(balance.remaining + balance.accepted - balance.returned, balance.allocated)
  assert.equal(
    balance.unallocated + balance.remaining + balance.accepted - balance.returned,
    balance.quota,
    JSON.stringify(balance),
  )
}

const end = fc.oneof(fc.constant(null), fc.integer({ min: 0, max: bucketCount - 1 }))
const move = fc
  .record({ from: end, to: end, amount: fc.integer({ min: 1, max: 30 }) })
  .filter(({ from, to }) => from !== to)
const round = fc.record({
  moves: fc.array(move, { maxLength: 4 }),
  crashes: fc.array(fc.constantFrom<Crash>('none', 'before', 'after'), { maxLength: 6 }),
  claims: fc.integer({ min: 0, max: 3 }),
  repeatDeposit: fc.boolean(),
})

test('whatever is moved and wherever it is interrupted, stock is neither lost nor made (CL10)', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(round, { minLength: 1, maxLength: 5 }), async (rounds) => {
      const campaignId = await opened()
      for (const [n, { moves, crashes, claims, repeatDeposit }] of rounds.entries()) {
        await plan(campaignId, moves)
        const deps = crashing(ground.deps, [...crashes])
        for (let attempt = 0; attempt < 2; attempt++) await advanceTransfers(deps, campaignId)
        for (let bucket = 0; bucket < bucketCount; bucket++)
          await claimFor(ground, { campaignId, bucket }, people(claims, `r${n}b${bucket}`))
        await assertConserved(campaignId)
        if (repeatDeposit) await repeatAllDeposits(campaignId)
      }
      await advanceTransfers(ground.deps, campaignId)
      await repeatAllDeposits(campaignId)
      await assertAtRest(campaignId)
    }),
    { numRuns: 40 },
  )
})

/** Deposits that were done, sent once more, as by a client that never heard of the first. */
async function repeatAllDeposits(campaignId: string): Promise<void> {
  const done = await ground.sql`
    SELECT transfer_id, to_bucket, amount FROM transfers
    WHERE campaign_id = ${campaignId} AND state = 'DEPOSITED' AND to_bucket IS NOT NULL AND amount > 0`
  for (const row of done) {
    const bucket: Bucket = { campaignId, bucket: row['to_bucket'] }
    const reply = await deposit(ground.deps.runner, bucket, row['transfer_id'], Number(row['amount']))
    assert.equal(reply.outcome, 'already')
  }
}

test('a step that failed in the database after Redis did it is finished from the row alone', async () => {
  const campaignId = await opened()
  const [id] = await plan(campaignId, [{ from: 0, to: 1, amount: 7 }])
  const { runner, db } = ground.deps
  const dying: Deps = {
    ...ground.deps,
    db: {
      ...db,
      admin: {
        ...db.admin,
        // Commits nothing: the process is gone once Redis has answered.
        transaction: (work) =>
          db.admin.transaction(async (tx) => {
            const result = await work(tx)
            if (result === 1) throw new Error('the process died before its commit')
            return result
          }),
      },
    },
  }
  await assert.rejects(advanceTransfers(dying, campaignId), /died before its commit/)
  const state = async () =>
    (await ground.sql`SELECT state, amount FROM transfers WHERE transfer_id = ${id!}`)[0]!
  assert.deepEqual([(await state())['state'], (await state())['amount']], ['PLANNED', null])
  assert.equal(await resumeTransfers({ ...ground.deps, runner }), 2)
  assert.deepEqual([(await state())['state'], Number((await state())['amount'])], ['DEPOSITED', 7])
  await assertAtRest(campaignId)
})

test('several processes at once move each transfer once', async () => {
  const campaignId = await opened()
  await plan(
    campaignId,
    Array.from({ length: 12 }, (_, i) => ({ from: i % 3, to: (i + 1) % 3, amount: 2 })),
  )
  await Promise.all(Array.from({ length: 4 }, () => advanceTransfers(ground.deps, campaignId)))
  await advanceTransfers(ground.deps, campaignId)
  const [open] = await ground.sql`
    SELECT count(*)::int AS n FROM transfers WHERE campaign_id = ${campaignId} AND state <> 'DEPOSITED'`
  assert.equal(open!['n'], 0)
  await assertAtRest(campaignId)
})

test('a transfer takes what there is, also nothing, and never more than is unallocated', async () => {
  const campaignId = await opened()
  for (const move of [
    { from: null, to: 2, amount: each + 3 },
    { from: 0, to: null, amount: 1_000 },
    { from: 0, to: 1, amount: 5 },
  ]) {
    await plan(campaignId, [move])
    await advanceTransfers(ground.deps, campaignId)
  }
  const rows = await ground.sql`
    SELECT amount FROM transfers WHERE campaign_id = ${campaignId} ORDER BY requested DESC`
  assert.deepEqual(
    rows.map((row) => Number(row['amount'])),
    [each, each, 0],
  )
  await assertAtRest(campaignId)
})

test('the ledger names all moves of a bucket for its rebuild, as its gate knows them', async () => {
  const campaignId = await opened()
  await plan(campaignId, [
    { from: 0, to: 1, amount: 4 },
    { from: 1, to: 2, amount: 3 },
    { from: null, to: 1, amount: 5 },
  ])
  await advanceTransfers(ground.deps, campaignId)
  const bucket = { campaignId, bucket: 1 }
  const moves = await ground.deps.db.admin.transaction((tx) => movesOf(tx, bucket))
  const known = await ground.redis.hgetall(movesKey(bucket))
  assert.deepEqual(
    Object.fromEntries(moves.map(([id, amount]) => [id, amount < 0 ? String(amount) : `+${amount}`])),
    known,
  )
  assert.equal(moves.length, 3)
})

test('the transfer’s states allow no step back', () => {
  assert.deepEqual(transferMachine.sources('DEPOSITED'), ['WITHDRAWN'])
  assert.throws(() => transferMachine.move('DEPOSITED', 'PLANNED'))
})
