import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import postgres, { type Sql } from 'postgres'
import { type FreshDatabase, freshDatabase } from '../../stack/testing.ts'
import { migrate } from './migrate.ts'

/**
 * The schema keeps the rules under which its tables could be distributed on user_id (SC4, DESIGN §6), as far as the
 * catalogue tells: Citus itself is in no package that we may use.
 */

let database: FreshDatabase
let sql: Sql
before(async () => {
  database = await freshDatabase()
  await migrate(database.url)
  sql = postgres(database.url, { max: 1, onnotice: () => undefined })
})
after(async () => {
  await sql?.end()
  await database?.drop()
})

/** Grow with users: partitioned by hash of user_id, and what would be distributed on it. */
const distributed = [
  ...['ballot_lots', 'claims', 'compensations', 'coupons', 'ledger'],
  ...['push_deliveries', 'push_subscriptions', 'reviews'],
]
/** Grow with campaigns, and are joined to the others by campaign: a copy everywhere. */
const reference = ['ballots', 'buckets', 'campaign_stock', 'campaigns', 'rule_versions', 'transfers']
/** Queues and records of one place, never joined to the distributed ones by user: they stay where commands run. */
const local = [
  ...['audit_log', 'dead_letters', 'idempotency_keys', 'outbox', 'request_log', 'schema_migrations'],
  ...['webhook_attempts', 'webhook_deliveries', 'webhook_endpoints', 'webhook_secrets'],
]
const partitions = 8

/** What would keep the tables from being distributed, in words. */
async function faultsOf(client: Sql): Promise<string[]> {
  const faults: string[] = []
  const tables = await client<{ name: string; key: string | null; parts: number }[]>`
    SELECT c.relname AS name, CASE WHEN p.partstrat = 'h' THEN a.attname END AS key,
      (SELECT count(*)::int FROM pg_inherits i WHERE i.inhparent = c.oid) AS parts
    FROM pg_class c
    LEFT JOIN pg_partitioned_table p ON p.partrelid = c.oid
    LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0] AND p.partnatts = 1
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`
  const known = new Set([...distributed, ...reference, ...local])
  for (const { name, key, parts } of tables) {
    if (!known.has(name)) faults.push(`${name} is in no list: say whether it grows with users`)
    if (!distributed.includes(name)) continue
    if (key !== 'user_id') faults.push(`${name} is not partitioned by hash of user_id`)
    if (parts !== partitions) faults.push(`${name} has ${parts} partitions`)
  }
  const names = new Set(tables.map(({ name }) => name))
  for (const name of known) if (!names.has(name)) faults.push(`${name} is not there`)

  const keys = await client<{ name: string; key: string }[]>`
    SELECT c.relname AS name, x.indexrelid::regclass::text AS key
    FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid
    WHERE x.indisunique AND c.relname = ANY(${distributed}) AND NOT EXISTS (
      SELECT 1 FROM pg_attribute a
      WHERE a.attrelid = c.oid AND a.attname = 'user_id' AND a.attnum = ANY(x.indkey::int2[]))`
  for (const { name, key } of keys) faults.push(`${key} of ${name} is unique without user_id`)

  const references = await client<{ name: string; to: string }[]>`
    SELECT DISTINCT conrelid::regclass::text AS name, confrelid::regclass::text AS to
    FROM pg_constraint WHERE contype = 'f'
      AND (conrelid::regclass::text = ANY(${distributed}) OR confrelid::regclass::text = ANY(${distributed}))`
  for (const { name, to } of references) faults.push(`${name} has a foreign key to ${to}`)

  const triggers = await client<{ name: string }[]>`
    SELECT tgrelid::regclass::text AS name FROM pg_trigger WHERE NOT tgisinternal`
  for (const { name } of triggers) faults.push(`${name} has a trigger`)

  const sequences = await client<{ name: string }[]>`
    SELECT DISTINCT a.attrelid::regclass::text AS name FROM pg_attribute a
    WHERE (a.attidentity <> '' OR pg_get_serial_sequence(a.attrelid::regclass::text, a.attname) IS NOT NULL)
      AND a.attnum > 0 AND NOT a.attisdropped AND a.attrelid::regclass::text = ANY(${distributed})`
  for (const { name } of sequences) faults.push(`${name} has ids that one database makes`)
  return faults
}

test('every table that grows with users could be distributed on user_id, and every table is in a list', async () => {
  assert.deepEqual(await faultsOf(sql), [])
})

for (const [what, statement, fault] of [
  ['a partition that is missing', 'ALTER TABLE claims DETACH PARTITION claims_7', /claims has 7 partitions/],
  [
    'a foreign key between users’ rows',
    `ALTER TABLE coupons ADD FOREIGN KEY (user_id, request_id) REFERENCES claims`,
    /coupons has a foreign key to claims/,
  ],
  [
    'a trigger',
    `CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
     CREATE TRIGGER t BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION f()`,
    /ledger has a trigger/,
  ],
  [
    'a table that nobody has thought about',
    'CREATE TABLE favourites (user_id text)',
    /favourites is in no list/,
  ],
  [
    'a unique key without the user',
    `DROP TABLE reviews; CREATE TABLE reviews (review_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, user_id text)`,
    /reviews_pkey of reviews is unique without user_id/,
  ],
] as const)
  test(`the check finds ${what}`, async () => {
    await sql
      .begin(async (tx) => {
        await tx.unsafe(statement)
        assert.match((await faultsOf(tx as unknown as Sql)).join('\n'), fault)
        throw undo
      })
      .catch((error) => {
        if (error !== undo) throw error
      })
  })
const undo = new Error('undo')
