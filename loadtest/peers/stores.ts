import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { Stores } from './designs/design.ts'

/** Commands fail at once while Redis is away, and a lost answer is an error: a service must not hang on either. */
export function openStores(redisUrl: string, databaseUrl: string): Stores {
  const redis = connect(redisUrl)
  return {
    redis,
    blocking: connect(redisUrl),
    sql: postgres(databaseUrl, { max: 10, onnotice: () => undefined, connect_timeout: 5 }),
  }
}

function connect(url: string): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: 0, retryStrategy: () => 100 })
  redis.on('error', () => undefined)
  return redis
}

export async function closeStores({ redis, blocking, sql }: Stores): Promise<void> {
  redis.disconnect()
  blocking.disconnect()
  await sql.end({ timeout: 2 })
}
