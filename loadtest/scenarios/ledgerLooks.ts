import type { Redis } from 'ioredis'
import type { Sql } from 'postgres'
import { until } from '../../stack/process.ts'

/** Looks at whether the system has come to rest, and what stands then. */

export interface Watched {
  id: string
  bucketCount: number
}

const keysOf = (campaigns: readonly Watched[], what: string) =>
  campaigns.flatMap(({ id, bucketCount }) =>
    Array.from({ length: bucketCount }, (_, bucket) => `tg:{${id}:${bucket}}:${what}`),
  )

/** Until every gate has a lease. @returns how long that took, ms. @throws after `withinMs` */
export async function untilLeased(
  redis: Redis,
  campaigns: readonly Watched[],
  withinMs: number,
): Promise<number> {
  const began = performance.now()
  const keys = keysOf(campaigns, 'gate')
  const leased = async () => {
    const leases = await Promise.all(keys.map((key) => redis.hget(key, 'lease_until')))
    return leases.every((lease) => Number(lease) > Date.now())
  }
  await until(() => leased().catch(() => false), 'no lease came', withinMs)
  return Math.round(performance.now() - began)
}

/** Until the logs are empty, no compensation is open and every event is told, and so it stays for a moment. */
export async function untilAtRest(
  redis: Redis,
  sql: Sql,
  campaigns: readonly Watched[],
  withinMs: number,
): Promise<void> {
  const logs = keysOf(campaigns, 'log')
  const ids = campaigns.map(({ id }) => id)
  const quiet = async () => {
    const lengths = await Promise.all(logs.map((log) => redis.xlen(log)))
    if (lengths.some((length) => length > 0)) return false
    const [open] = await sql<{ n: number }[]>`
      SELECT (SELECT count(*) FROM compensations WHERE campaign_id = ANY(${ids}) AND state <> 'CLOSED')::int
        + (SELECT count(*) FROM outbox WHERE published_at IS NULL)::int AS n`
    return open!.n === 0
  }
  let quietSince = 0
  await until(
    async () => {
      if (!(await quiet().catch(() => false))) quietSince = 0
      else quietSince ||= Date.now()
      return quietSince > 0 && Date.now() - quietSince > 300
    },
    'claims stay undelivered',
    withinMs,
    50,
  )
}

/** Request ids that the ledger has decided. */
export async function settledIds(sql: Sql, campaigns: readonly Watched[]): Promise<Set<string>> {
  const ids = campaigns.map(({ id }) => id)
  const rows = await sql<{ request_id: string }[]>`
    SELECT request_id::text FROM claims
    WHERE campaign_id = ANY(${ids}) AND status IN ('DELIVERED', 'REJECTED')`
  return new Set(rows.map(({ request_id }) => request_id))
}

/** Acceptances and stock of each bucket, as its gate counts them. */
export async function readBuckets(
  redis: Redis,
  campaign: Watched,
): Promise<{ accepted: number; remaining: number }[]> {
  return Promise.all(
    keysOf([campaign], 'gate').map(async (key) => {
      const [accepted, remaining] = await redis.hmget(key, 'accepted', 'remaining')
      return { accepted: Number(accepted), remaining: Number(remaining) }
    }),
  )
}
