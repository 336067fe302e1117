import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { AtRest } from './auditHistory.ts'
import { readRecords } from './records.ts'

/** Reads what a history is judged by, once the system is at rest. */
export async function readAtRest(target: {
  databaseUrl: string
  redisUrl: string
  campaignId: string
}): Promise<AtRest> {
  const sql = postgres(target.databaseUrl, { max: 1, onnotice: () => undefined })
  const redis = new Redis(target.redisUrl)
  try {
    const { campaignId } = target
    const [campaign] = await sql`
      SELECT quota, per_user_limit, bucket_count FROM campaigns WHERE campaign_id = ${campaignId}`
    const claims = await sql`
      SELECT user_id, request_id::text, status, reason FROM claims WHERE campaign_id = ${campaignId}`
    const restocked = await sql<{ from: Date; to: Date }[]>`
      SELECT created_at AS "from", updated_at AS "to" FROM compensations WHERE campaign_id = ${campaignId}
      UNION ALL SELECT at, at FROM audit_log
      WHERE target = ${campaignId} AND action IN ('bucket.rebuild', 'campaign.increase')`
    return {
      quota: Number(campaign!['quota']),
      perUserLimit: Number(campaign!['per_user_limit']),
      claims: claims.map((row) => ({
        userId: row['user_id'],
        requestId: row['request_id'],
        status: row['status'],
        reason: row['reason'],
      })),
      restocked: restocked.map(({ from, to }) => ({ fromMs: from.getTime(), toMs: to.getTime() })),
      recorded: await readRecorded(redis, campaignId, Number(campaign!['bucket_count'])),
    }
  } finally {
    redis.disconnect()
    await sql.end({ timeout: 5 })
  }
}

async function readRecorded(redis: Redis, campaignId: string, buckets: number): Promise<Set<string>> {
  const recorded = new Set<string>()
  for (let bucket = 0; bucket < buckets; bucket++) {
    let cursor = '0'
    do {
      const [next, pairs] = await redis.hscan(`tg:{${campaignId}:${bucket}}:users`, cursor, 'COUNT', 1000)
      cursor = next
      for (let i = 0; i < pairs.length; i += 2)
        for (const { requestId } of readRecords(pairs[i]!, pairs[i + 1]!)) recorded.add(requestId)
    } while (cursor !== '0')
  }
  return recorded
}
