import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import postgres from 'postgres'
import { migrate } from '../../schema/db/migrate.ts'
import { type FreshDatabase, freshDatabase } from '../../stack/testing.ts'
import type { Database } from '../db.ts'
import { eventsAfter } from '../notify/outbox.ts'
import { findClaims, findSequences, type Tx } from './issue.sql.ts'
import { findClaimView, latestClaims } from './status.ts'
import { readWallet } from './wallet.ts'

/** Statements for one user look into that user's partitions only (SC4): by the plans of what the product sends. */

interface Plan {
  'Relation Name'?: string
  'Actual Loops': number
  Plans?: Plan[]
}

let database: FreshDatabase
let sent: { query: string; parameters: unknown[] }[] = []
let sql: postgres.Sql<{ bigint: number }>
const user = 'user-77'
const requestId = '01920000-0000-7000-8000-000000000077'

before(async () => {
  database = await freshDatabase()
  await migrate(database.url)
  sql = postgres(database.url, {
    max: 1,
    onnotice: () => undefined,
    debug: (_, query, parameters) => sent.push({ query, parameters }),
  }) as unknown as typeof sql
  await fill()
})
after(async () => {
  await sql?.end()
  await database?.drop()
})

/** Enough rows of others that reading all partitions would be the dearer plan, as in a ledger that is in use. */
async function fill(): Promise<void> {
  await sql.unsafe(`
    INSERT INTO campaigns (campaign_id, name, state, quota, per_user_limit, starts_at, ends_at, time_zone, created_by,
      created_at, updated_at) VALUES ('c', 'C', 'ACTIVE', 100000, 1, now(), now() + '1 day', 'UTC', 'olga', now(), now());
    INSERT INTO rule_versions VALUES ('c', 1, '{}', 'olga', now());
    INSERT INTO claims (user_id, request_id, campaign_id, bucket, rule_version, status, coupon_id, entry_ms, entry_seq,
      key_fingerprint, params_fingerprint, token_id, accepted_at)
    SELECT 'user-' || i, ('01920000-0000-7000-8000-' || lpad(i::text, 12, '0'))::uuid, 'c', 0, 1, 'DELIVERED',
      gen_random_uuid(), i, 0, 'k', 'p', 't', now() FROM generate_series(1, 20000) i;
    INSERT INTO coupons SELECT user_id, coupon_id, 'c', 1, request_id, 1, now(), now() + '1 day', 'AVAILABLE', 1, now(),
      now() FROM claims;
    INSERT INTO outbox (user_id, request_id, type, payload, created_at)
    SELECT user_id, request_id, 'claim.delivered', '{}', now() FROM claims;
    ANALYZE`)
}

/** The partitions of this table that the statements sent by `work` looked into. */
async function partitionsSeen(table: string, work: () => Promise<unknown>): Promise<string[]> {
  sent = []
  await work()
  const seen = new Set<string>()
  for (const { query, parameters } of sent.filter(({ query }) => /^\s*SELECT/.test(query))) {
    const [row] = await sql.unsafe(`EXPLAIN (ANALYZE, FORMAT JSON) ${query}`, parameters as never[])
    const walk = (plan: Plan) => {
      const name = plan['Relation Name']
      if (name?.startsWith(`${table}_`) && plan['Actual Loops'] > 0) seen.add(name)
      plan.Plans?.forEach(walk)
    }
    walk((row!['QUERY PLAN'] as [{ Plan: Plan }])[0].Plan)
  }
  return [...seen]
}

const deps = () => ({
  db: { query: { sql } } as unknown as Database,
  clock: () => Date.now(),
})

describe('a user’s statements', () => {
  for (const [what, tables, work] of [
    ['a claim’s status', ['claims', 'coupons'], () => findClaimView(sql, user, requestId, Date.now())],
    ['the latest claims', ['claims', 'coupons'], () => latestClaims(deps() as never, user, 10)],
    ['the wallet', ['coupons'], () => readWallet(deps(), { userId: user, limit: 20 })],
    [
      'the look-up of a claim before it is issued',
      ['claims'],
      () => findClaims(sql as unknown as Tx, [{ userId: user, requestId } as never]),
    ],
    ['the look-up of a user’s coupons', ['coupons'], () => findSequences(sql as unknown as Tx, 'c', [user])],
  ] as const)
    it(`look into one partition: ${what}`, async () => {
      for (const table of tables) {
        const seen = await partitionsSeen(table, work)
        assert.equal(seen.length, 1, `${table}: ${seen.join(', ')}`)
      }
    })

  it('would be seen to look into all of them', async () => {
    const all = await partitionsSeen('claims', () => sql`SELECT count(*) FROM claims WHERE campaign_id = 'c'`)
    assert.equal(all.length, 8)
  })

  it('find a user’s events by an index, of a table that is not distributed', async () => {
    sent = []
    await eventsAfter({ sql } as never, user, { eventId: 0, atMs: Date.now() - 60_000 })
    const { query, parameters } = sent.at(-1)!
    const plan = await sql.unsafe(`EXPLAIN ${query}`, parameters as never[])
    assert.match(plan.map((row) => row['QUERY PLAN']).join('\n'), /Index Scan using outbox_by_user/)
  })
})
