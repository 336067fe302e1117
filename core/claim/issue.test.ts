import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { inspect, snapshot } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import {
  discard,
  type FreshDatabase,
  type FreshRedis,
  freshDatabase,
  freshRedis,
} from '../../stack/testing.ts'
import { groupEntries, type RawEntry } from './batch.ts'
import { type DeliverContext, deliver } from './deliver.ts'
import { claimMetrics } from './metrics.ts'
import { openRuleBook } from './rules.ts'
import {
  type Accepted,
  claimArgs,
  claimFor,
  forgeEntry,
  type Ground,
  openCampaign,
  openGround,
  people,
} from './testing.ts'

let database: FreshDatabase
let redis: FreshRedis
let ground: Ground
let ctx: DeliverContext
before(async () => {
  ;[database, redis] = await Promise.all([freshDatabase(), freshRedis()])
  ground = await openGround(database.url, redis.url)
  const { deps } = ground
  ctx = {
    pool: deps.db.issuance,
    ruleBook: openRuleBook(deps.db.issuance),
    clock: deps.clock,
    runner: deps.runner,
    log: deps.log,
    metrics: claimMetrics(deps.metrics),
    signal: new AbortController().signal,
    noteDatabase: () => undefined,
  }
})
after(async () => {
  await ground.close()
  await discard(redis)
  await database.drop()
})

async function entriesOf(bucket: Bucket): Promise<RawEntry[]> {
  const rows = await ground.redis.xrange(logKey(bucket), '-', '+')
  return rows.map(([id, fields]) => ({ id, fields }))
}

/** Delivers all that the log holds. */
async function deliverLog(bucket: Bucket, entries?: RawEntry[], careful = false): Promise<void> {
  for (const group of groupEntries(entries ?? (await entriesOf(bucket))))
    await deliver(ctx, bucket, group, careful)
}

const claimsOf = (bucket: Bucket) =>
  ground.sql<{ user_id: string; request_id: string; status: string; reason: string | null }[]>`
    SELECT user_id, request_id, status, reason FROM claims WHERE campaign_id = ${bucket.campaignId}
    ORDER BY entry_ms, entry_seq, request_id`

/** How often each text stands in the list. */
function tally(texts: readonly (string | null)[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const text of texts) counts[String(text)] = (counts[String(text)] ?? 0) + 1
  return counts
}

async function countOf(table: string, bucket: Bucket): Promise<number> {
  const [row] = await ground.sql`
    SELECT count(*)::int AS n FROM ${ground.sql(table)} WHERE campaign_id = ${bucket.campaignId}`
  return row!['n'] as number
}

const issuedOf = async (bucket: Bucket) => {
  const [row] =
    await ground.sql`SELECT issued::int FROM campaign_stock WHERE campaign_id = ${bucket.campaignId}`
  return row!['issued'] as number
}

async function stateOf(bucket: Bucket, { userId, requestId }: Accepted): Promise<string | undefined> {
  const acceptances = await inspect(ground.deps.runner, bucket, userId)
  return acceptances?.find((acceptance) => acceptance.requestId === requestId)?.state
}

describe('issuing', () => {
  it('a batch delivered again and again is one coupon a request (A4 §15.1-4)', async () => {
    const bucket = await openCampaign(ground, { quota: 100 })
    await claimFor(ground, bucket, people(70))
    const entries = await entriesOf(bucket)
    for (const careful of [false, false, true]) await deliverLog(bucket, entries, careful)
    for (const table of ['claims', 'coupons', 'ledger']) assert.equal(await countOf(table, bucket), 70, table)
    assert.equal(await issuedOf(bucket), 70)
    assert.equal(await countOf('compensations', bucket), 0)
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.settled, gate?.entries, gate?.remaining], [70, 0, 30])
  })

  it('a batch of which some were delivered before issues only the rest', async () => {
    const bucket = await openCampaign(ground, { quota: 100 })
    await claimFor(ground, bucket, people(64))
    const [first] = await entriesOf(bucket)
    await deliverLog(bucket, [first!])
    await claimFor(ground, bucket, people(30, 'later'))
    await deliverLog(bucket, [first!, ...(await entriesOf(bucket))])
    assert.equal(await countOf('coupons', bucket), 94)
    assert.equal(await issuedOf(bucket), 94)
  })

  it('two requests of one user are one coupon and one REJECTED_DUPLICATE with its debt (A4 §15.1-2)', async () => {
    // The gate knows a limit of 2: as when it lost a record, or the limit was lowered meanwhile.
    const bucket = await openCampaign(ground, { quota: 10, perUserLimit: 2 })
    const accepted = await claimFor(ground, bucket, ['one', 'one', 'two'])
    assert.equal(accepted.length, 3)
    await ground.sql`UPDATE campaigns SET per_user_limit = 1 WHERE campaign_id = ${bucket.campaignId}`
    await deliverLog(bucket)
    const rows = await claimsOf(bucket)
    assert.deepEqual(tally(rows.map(({ reason }) => reason)), { null: 2, REJECTED_DUPLICATE: 1 })
    assert.equal(rows.find(({ status }) => status === 'REJECTED')?.request_id, accepted[1]!.requestId)
    const [debt] =
      await ground.sql`SELECT state, reason FROM compensations WHERE campaign_id = ${bucket.campaignId}`
    assert.deepEqual({ ...debt }, { state: 'PENDING', reason: 'REJECTED_DUPLICATE' })
    assert.deepEqual(await Promise.all(accepted.map((one) => stateOf(bucket, one))), ['D', 'X', 'D'])
    const told =
      await ground.sql`SELECT payload FROM outbox WHERE type = 'claim.rejected' AND user_id = 'one'`
    assert.deepEqual(told[0]!['payload'], {
      request_id: accepted[1]!.requestId,
      status: 'REJECTED',
      reason: 'REJECTED_DUPLICATE',
    })
  })

  it('a limit of several gives each coupon its own sequence, across batches', async () => {
    const bucket = await openCampaign(ground, { quota: 10, perUserLimit: 3 })
    await claimFor(ground, bucket, ['one', 'one'])
    await deliverLog(bucket)
    assert.equal((await claimFor(ground, bucket, ['one', 'one'])).length, 1)
    await deliverLog(bucket)
    const rows = await ground.sql`
      SELECT claim_seq FROM coupons WHERE campaign_id = ${bucket.campaignId} ORDER BY claim_seq`
    assert.deepEqual(
      rows.map((row) => row['claim_seq']),
      [1, 2, 3],
    )
  })

  it('the quota in the ledger holds when Redis claims to have more (case-H18)', async () => {
    const bucket = await openCampaign(ground, { quota: 60, gateStock: 100 })
    const accepted = await claimFor(ground, bucket, people(100))
    assert.equal(accepted.length, 100)
    await deliverLog(bucket)
    assert.equal(await issuedOf(bucket), 60)
    assert.equal(await countOf('coupons', bucket), 60)
    const rows = await claimsOf(bucket)
    assert.deepEqual(tally(rows.map(({ reason }) => reason)), { null: 60, REJECTED_QUOTA: 40 })
    assert.equal(await countOf('compensations', bucket), 40)
    // First come, first served: none of the rejected came before one of the delivered.
    const order = new Map(accepted.map(({ requestId }, i) => [requestId, i]))
    const delivered = rows.filter(({ status }) => status === 'DELIVERED')
    assert.equal(Math.max(...delivered.map((row) => order.get(row.request_id)!)), 59)
  })

  it('a claim that the gate accepted for review is kept for a person, among others that become coupons (CL5)', async () => {
    const bucket = await openCampaign(ground, { quota: 10, perUserLimit: 1 })
    const args = people(3).map(claimArgs)
    args[1] = { ...args[1]!, packed: `${args[1]!.packed.slice(0, -1)}V` }
    const { verdicts } = await claim(ground.deps.runner, bucket, args)
    assert.ok(verdicts.every(({ decision }) => decision === 'ACCEPTED'))
    const entries = await entriesOf(bucket)
    for (const careful of [false, true]) await deliverLog(bucket, entries, careful)
    const rows = await claimsOf(bucket)
    const statuses = Object.fromEntries(rows.map(({ user_id, status }) => [user_id, status]))
    assert.deepEqual(statuses, { 'user-0': 'DELIVERED', 'user-1': 'REVIEW', 'user-2': 'DELIVERED' })
    assert.equal(await countOf('coupons', bucket), 2)
    assert.equal(await issuedOf(bucket), 2)
    assert.equal(await countOf('compensations', bucket), 0)
    const held = { userId: 'user-1', requestId: verdicts[1]!.requestId! }
    assert.equal(await stateOf(bucket, held), 'V')
    const [row] = await ground.sql`SELECT settled_at FROM claims WHERE request_id = ${held.requestId}`
    assert.equal(row!['settled_at'], null)
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.settled, gate?.entries, gate?.remaining], [2, 0, 7])
  })

  it('a request that stands twice in a batch is one coupon (case-I2)', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await claimFor(ground, bucket, people(3))
    const [entry] = await entriesOf(bucket)
    await ground.redis.xadd(logKey(bucket), '*', ...entry!.fields)
    await deliverLog(bucket)
    assert.deepEqual(tally((await claimsOf(bucket)).map(({ status }) => status)), { DELIVERED: 3 })
    assert.equal(await ground.redis.xlen(logKey(bucket)), 0)
    assert.equal(await countOf('dead_letters', bucket), 0)
  })

  it('a poisonous claim in the middle of 64 goes to the dead letters, and 63 become coupons (IS7, case-H15)', async () => {
    const bucket = await openCampaign(ground, { quota: 100 })
    // Postgres has no text with a NUL; Redis and the arbiter do.
    const users = people(64)
    users[31] = 'nul\0user'
    const accepted = await claimFor(ground, bucket, users)
    assert.equal(accepted.length, 64)
    await deliverLog(bucket)
    assert.equal(await countOf('coupons', bucket), 63)
    assert.equal(await issuedOf(bucket), 63)
    const [letter] = await ground.sql`SELECT * FROM dead_letters WHERE campaign_id = ${bucket.campaignId}`
    assert.deepEqual([letter!['position'], letter!['state']], [31, 'OPEN'])
    assert.match(letter!['cause'], /^22021/)
    assert.deepEqual(letter!['fields'].slice(0, 3), ['v', '1:1', 'nul␀user'])
    assert.equal(await stateOf(bucket, accepted[31]!), 'V')
    assert.equal(await ground.redis.xlen(logKey(bucket)), 0)
  })

  it('an unreadable claim does not take the readable ones of its entry with it', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await claimFor(ground, bucket, people(2))
    const [entry] = await entriesOf(bucket)
    await ground.redis.xtrim(logKey(bucket), 'MAXLEN', 0)
    const pairs = [entry!.fields.slice(2, 4), ['garbled', 'not a record'], entry!.fields.slice(4, 6)]
    await forgeEntry(ground, bucket, pairs as [string, string][])
    await ground.redis.xadd(logKey(bucket), '*', 'who', 'knows')
    await deliverLog(bucket)
    assert.equal(await countOf('coupons', bucket), 2)
    const letters = await ground.sql`
      SELECT position, fields FROM dead_letters WHERE campaign_id = ${bucket.campaignId} ORDER BY position`
    assert.deepEqual(
      letters.map((letter) => [letter['position'], letter['fields'].length]),
      [
        [-1, 2],
        [1, 4],
      ],
    )
    assert.equal(await ground.redis.xlen(logKey(bucket)), 0)
  })

  it('claims under rules that the ledger does not have wait in the dead letters', async () => {
    const bucket = await openCampaign(ground, { quota: 10 })
    await claimFor(ground, bucket, people(5))
    await ground.sql`DELETE FROM rule_versions WHERE campaign_id = ${bucket.campaignId}`
    await deliverLog(bucket)
    assert.equal(await countOf('dead_letters', bucket), 5)
    assert.equal(await countOf('claims', bucket), 0)
  })

  it('a coupon keeps the rules and the validity of its claim when the campaign’s change (A4 §15.1-9)', async () => {
    const [from, to] = ['2031-01-01T00:00:00.000Z', '2031-02-01T00:00:00.000Z']
    const bucket = await openCampaign(ground, {
      quota: 10,
      rules: { validity: { kind: 'fixed', from, to } },
    })
    const [accepted] = await claimFor(ground, bucket, ['one'])
    await ground.sql`
      INSERT INTO rule_versions SELECT campaign_id, 2, jsonb_set(rules, '{validity}', '{"kind":"days","days":1}'),
        created_by, now() FROM rule_versions WHERE campaign_id = ${bucket.campaignId}`
    await ground.sql`UPDATE campaigns SET rule_version = 2 WHERE campaign_id = ${bucket.campaignId}`
    await deliverLog(bucket)
    const [coupon] = await ground.sql`SELECT * FROM coupons WHERE request_id = ${accepted!.requestId}`
    assert.deepEqual(
      [
        Number(coupon!['rule_version']),
        coupon!['valid_from'].toISOString(),
        coupon!['valid_to'].toISOString(),
      ],
      [1, from, to],
    )
  })

  it('a cancelled campaign whose rules say so rejects what was accepted and not delivered (IS12)', async () => {
    for (const [in_flight, expected] of [
      ['cancel', { REJECTED_CANCELLED: 3 }],
      ['continue', { null: 3 }],
    ] as const) {
      const bucket = await openCampaign(ground, { quota: 10, rules: { in_flight } })
      await claimFor(ground, bucket, people(3))
      await ground.sql`UPDATE campaigns SET state = 'VOIDED' WHERE campaign_id = ${bucket.campaignId}`
      await deliverLog(bucket)
      assert.deepEqual(tally((await claimsOf(bucket)).map(({ reason }) => reason)), expected)
    }
  })

  it('a user id may be any text that Postgres can hold, and comes back unchanged', async () => {
    const users = [
      '"',
      '\\',
      '\\"',
      '{a,b}',
      'NULL',
      'null',
      ' padded ',
      'line\nbreak',
      '🦀',
      'ü',
      "'; --",
      ',',
      '}',
    ]
    const bucket = await openCampaign(ground, { quota: 100 })
    await claimFor(ground, bucket, users)
    await deliverLog(bucket)
    const rows = await ground.sql`SELECT user_id FROM coupons WHERE campaign_id = ${bucket.campaignId}`
    assert.deepEqual(rows.map((row) => row['user_id']).sort(), [...users].sort())
  })

  it('a full batch is one transaction, whose rows all fit', async () => {
    const size = limits.drainEntriesMax * limits.claimsPerCallMax
    const bucket = await openCampaign(ground, { quota: size })
    await claimFor(ground, bucket, people(size))
    await deliverLog(bucket)
    assert.equal(await countOf('coupons', bucket), size)
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.settled, gate?.entries], [size, 0])
  })
})
