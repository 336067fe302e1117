import { Redis } from 'ioredis'
import postgres from 'postgres'
import { connectDatabase, type Database } from '../../core/db.ts'
import { type Keyrings, makeKeyrings } from '../../core/keyrings.ts'
import { scripts } from '../../lua/scripts.generated.ts'
import { makeCampaignId } from '../../schema/campaignId.ts'
import { migrate } from '../../schema/db/migrate.ts'
import type { Rules } from '../../schema/rules.ts'
import { discard, type FreshRedis, freshDatabase, freshRedis } from '../../stack/testing.ts'
import { loadEdge } from './edge.ts'
import type { Plan } from './plan.ts'
import { seeded } from './random.ts'

/** The real servers of one worker, emptied before each seed. */
export interface Ground {
  readonly sql: postgres.Sql
  readonly redis: Redis
  readonly database: Database
  readonly keyrings: Keyrings
  readonly edgeModules: Awaited<ReturnType<typeof loadEdge>>
  /** Empties everything. */
  clear(): Promise<void>
  close(): Promise<void>
}

const ring = (name: string) => `k1:${name.padEnd(40, '.')}`
export const ringSpecs = {
  claimToken: ring('claim'),
  receipt: ring('receipt'),
  campaignId: ring('campaign'),
  edgeCore: ring('edge'),
}

export async function openGround(): Promise<Ground> {
  const [fresh, server] = await Promise.all([freshDatabase(), freshRedis()])
  await migrate(fresh.url)
  const sql = postgres(fresh.url, { max: 1, onnotice: () => undefined })
  const tables = await sql<{ name: string }[]>`
    SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT LIKE '%migration%'`
  await keepVacuumAway(sql)
  const redis = new Redis(server.url)
  await Promise.all(Object.values(scripts).map(({ source }) => redis.script('LOAD', source)))
  const database = connectDatabase({ url: fresh.url, prepare: true })
  const names = tables.map(({ name }) => name).join(', ')
  return {
    sql,
    redis,
    database,
    keyrings: makeKeyrings(ringSpecs),
    edgeModules: await loadEdge(),
    async clear() {
      await Promise.all([redis.flushdb(), sql.unsafe(`TRUNCATE ${names} RESTART IDENTITY CASCADE`)])
    },
    close: () => close(sql, redis, database, server, fresh.drop),
  }
}

async function close(
  sql: postgres.Sql,
  redis: Redis,
  database: Database,
  server: FreshRedis,
  drop: () => Promise<void>,
) {
  redis.disconnect()
  await Promise.all([sql.end({ timeout: 2 }), database.close()])
  await Promise.all([discard(server), drop()])
}

/** In the middle of a seed it would change the order in which rows are found. */
async function keepVacuumAway(sql: postgres.Sql): Promise<void> {
  const rows = await sql<{ name: string }[]>`
    SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind = 'r'`
  for (const { name } of rows) await sql.unsafe(`ALTER TABLE ${name} SET (autovacuum_enabled = false)`)
}

const money = { currency: 'EUR', minor: '500' }

/** A campaign as it stands in the ledger when it has just been published: its gates are still to be primed. */
export async function publish({ sql, keyrings }: Ground, plan: Plan, nowMs: number): Promise<string> {
  const campaignId = makeCampaignId(seeded(plan.seed, 'campaign').bytes(16), keyrings.campaignId)
  const at = (ms: number) => new Date(nowMs + ms).toISOString()
  const rules: Rules = {
    benefit: { kind: 'amount_off', amount: money, threshold: money },
    validity: { kind: 'days', days: 30 },
    in_flight: plan.inFlight,
  }
  await sql`
    INSERT INTO campaigns (campaign_id, name, state, quota, per_user_limit, bucket_count, starts_at, ends_at, time_zone,
      tail_policy, created_by, approved_by, created_at, updated_at)
    VALUES (${campaignId}, 'Simulated', 'ACTIVE', ${plan.quota}, ${plan.perUserLimit}, ${plan.bucketCount},
      ${at(plan.startsInMs)}, ${at(plan.endsInMs)}, 'UTC', ${plan.tailPolicy}, 'olga', 'anna', ${at(0)}, ${at(0)})`
  await sql`INSERT INTO rule_versions VALUES (${campaignId}, 1, ${sql.json(rules)}, 'olga', ${at(0)})`
  await sql`INSERT INTO campaign_stock (campaign_id, quota) VALUES (${campaignId}, ${plan.quota})`
  const share = Math.floor(plan.quota / plan.bucketCount)
  for (let bucket = 0; bucket < plan.bucketCount; bucket++) {
    const allocated = share + (bucket < plan.quota % plan.bucketCount ? 1 : 0)
    await sql`INSERT INTO buckets (campaign_id, bucket, allocated) VALUES (${campaignId}, ${bucket}, ${allocated})`
  }
  return campaignId
}
