import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { type Logger, pino } from 'pino'
import postgres from 'postgres'
import { type ClaimArgs, claim } from '../../lua/claim.ts'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { prime, renewLease } from '../../lua/stock.ts'
import { userTag } from '../../schema/acceptance.ts'
import { mainStore } from '../../schema/campaignId.ts'
import { migrate } from '../../schema/db/migrate.ts'
import { keyFingerprint } from '../../schema/hash.ts'
import type { Rules } from '../../schema/rules.ts'
import { alphabet, sixbitFromBytes } from '../../schema/sixbit.ts'
import type { CampaignState } from '../../schema/states.ts'
import { connect } from '../connect.ts'
import type { Deps, Running } from '../deps.ts'
import { parseEnv } from '../env.ts'

/** A ground for tests of the claim path on real parts: dependencies, campaigns, claims by the real arbiter. */

export interface Ground {
  deps: Deps
  /** Looks into the database beside the core's own pools. */
  sql: postgres.Sql
  redis: Redis
  /** Stops it with the ground. */
  runs<T extends Running>(part: T): T
  close(): Promise<void>
}

const key = (name: string) => `k1:${name.padEnd(40, '.')}`

/** A core's environment for these servers, as variables. */
export function environmentFor(databaseUrl: string, redisUrl: string): Record<string, string> {
  return {
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    LOGIN_JWKS_URL: 'http://127.0.0.1:9/jwks',
    LOGIN_ISSUER: 'test',
    LOGIN_AUDIENCE: 'test',
    CLAIM_TOKEN_KEYS: key('claim'),
    RECEIPT_KEYS: key('receipt'),
    CAMPAIGN_ID_KEYS: key('campaign'),
    EDGE_CORE_KEYS: key('edge'),
  }
}

/**
 * @param redisUrl of a server, or with commas of a cluster; `redis` then talks to the first of its nodes.
 * @param through where the core finds Postgres, when not at `databaseUrl`: a proxy in between. */
export async function openGround(
  databaseUrl: string,
  redisUrl: string,
  through: { databaseUrl?: string; log?: Logger; env?: Record<string, string> } = {},
): Promise<Ground> {
  await migrate(databaseUrl)
  const log = through.log ?? pino({ level: 'silent' })
  const env = parseEnv({ ...environmentFor(through.databaseUrl ?? databaseUrl, redisUrl), ...through.env })
  const { deps, close } = connect(env, log)
  const sql = postgres(databaseUrl, { max: 2, onnotice: () => undefined })
  const redis = new Redis(redisUrl.split(',')[0]!)
  redis.on('error', () => undefined)
  const parts: Running[] = []
  return {
    deps,
    sql,
    redis,
    runs(part) {
      parts.push(part)
      return part
    },
    async close() {
      await Promise.all(parts.map((part) => part.stop()))
      await close()
      redis.disconnect()
      await sql.end({ timeout: 2 })
    },
  }
}

export interface CampaignSpec {
  quota: number
  /** Stock of the gate, when it is not the quota: Redis that claims more than there is. */
  gateStock?: number
  perUserLimit?: number
  state?: CampaignState
  rules?: Partial<Rules>
  /** Ms from now; a minute ago unless given. */
  startsInMs?: number
  /** One unless given; the quota is a multiple of it. */
  buckets?: number
  /** Whether the ledger knows of the gates; until it does nobody drains them. True unless given. */
  known?: boolean
  /** Another store than the main one. */
  store?: string
}

let campaigns = 0
const money = { currency: 'EUR', minor: '500' }
const plainRules: Rules = {
  benefit: { kind: 'amount_off', amount: money, threshold: money },
  validity: { kind: 'days', days: 30 },
  in_flight: 'continue',
}

/** A campaign in the ledger and in Redis, with a long lease: its first bucket. */
export async function openCampaign(ground: Ground, spec: CampaignSpec): Promise<Bucket> {
  const { sql, deps } = ground
  const { buckets = 1, known = true, store = mainStore } = spec
  const name = `c-${process.pid}-${++campaigns}`
  // A campaign's id says its store behind 25 characters.
  const bucket = { campaignId: store === mainStore ? name : `${name.padEnd(25, '.')}-${store}`, bucket: 0 }
  const now = deps.clock()
  const at = (ms: number) => new Date(now + ms).toISOString()
  const { perUserLimit = 1, state = 'ACTIVE' } = spec
  const [startsAt, endsAt] = [spec.startsInMs ?? -60_000, 3_600_000]
  await sql`
    INSERT INTO campaigns (campaign_id, name, state, quota, per_user_limit, starts_at, ends_at, time_zone,
      created_by, created_at, updated_at, bucket_count, store)
    VALUES (${bucket.campaignId}, 'Test', ${state}, ${spec.quota}, ${perUserLimit}, ${at(startsAt)}, ${at(endsAt)},
      'UTC', 'maker', ${at(0)}, ${at(0)}, ${buckets}, ${store})`
  const rules = { ...plainRules, ...spec.rules }
  await sql`INSERT INTO rule_versions VALUES (${bucket.campaignId}, 1, ${sql.json(rules)}, 'maker', ${at(0)})`
  await sql`INSERT INTO campaign_stock (campaign_id, quota) VALUES (${bucket.campaignId}, ${spec.quota})`
  await sql`
    INSERT INTO buckets (campaign_id, bucket, allocated, primed_at, config_version)
    SELECT ${bucket.campaignId}, b, ${spec.quota / buckets}, ${known ? at(0) : null}, 1 FROM generate_series(0, ${buckets - 1}) b`
  const config = {
    configVersion: 1,
    state: 'ACTIVE' as const,
    ruleVersion: 1,
    startsAtMs: now + startsAt,
    endsAtMs: now + endsAt,
    perUserLimit,
  }
  const stock = { epoch: 1, amount: (spec.gateStock ?? spec.quota) / buckets, final: buckets === 1 }
  for (let i = 0; i < buckets; i++) {
    await prime(deps.runner, { ...bucket, bucket: i }, config, stock)
    await renewLease(deps.runner, { ...bucket, bucket: i }, 600_000, stock.final)
  }
  return bucket
}

export interface Accepted {
  userId: string
  requestId: string
}

const part = (width: number) => sixbitFromBytes(randomBytes(width), 0, width)

export function claimArgs(userId: string): ClaimArgs {
  // Of a request id's first random character only the low two bits count, and it ends with its user's tag.
  const random = alphabet[randomBytes(1)[0]! & 3]! + part(9) + userTag(userId)
  return { userId, packed: `${random}${keyFingerprint(part(16))}${part(4)}${part(9)}A` }
}

/** Claims by the real arbiter, in calls of 64: the acceptances. */
export async function claimFor(
  ground: Ground,
  bucket: Bucket,
  userIds: readonly string[],
): Promise<Accepted[]> {
  const accepted: Accepted[] = []
  for (let at = 0; at < userIds.length; at += 64) {
    const users = userIds.slice(at, at + 64)
    const { verdicts } = await claim(ground.deps.runner, bucket, users.map(claimArgs))
    verdicts.forEach(({ decision, requestId }, i) => {
      if (decision === 'ACCEPTED') accepted.push({ userId: users[i]!, requestId: requestId! })
    })
  }
  return accepted
}

export const people = (count: number, name = 'user') =>
  Array.from({ length: count }, (_, i) => `${name}-${i}`)

/**
 * Puts an entry in a log past the arbiter, with a record in no user's field: as after a bug, a failover, or by an
 * intruder. Each pair is a user and a packed record.
 */
export async function forgeEntry(
  ground: Ground,
  bucket: Bucket,
  pairs: readonly (readonly [userId: string, record: string])[],
): Promise<void> {
  await ground.redis.xadd(logKey(bucket), '*', 'v', '1:1', ...pairs.flat())
}
