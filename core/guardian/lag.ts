import { type Bucket, logKey } from '../../lua/keys.ts'
import type { RedisClient } from '../stores/store.ts'

/** What the drain still has before it. */
export interface Lag {
  /** Entries that nobody has settled; undefined when there is no log at all. */
  entries: number | undefined
  /** Age of the oldest of them, ms. */
  oldestMs: number
}

/** One command for both: what is settled is deleted. @throws when Redis does not answer. */
export async function readLag(redis: RedisClient, bucket: Bucket, nowMs: number): Promise<Lag> {
  let info: unknown[]
  try {
    info = (await redis.call('XINFO', 'STREAM', logKey(bucket))) as unknown[]
  } catch (error) {
    if (/no such key/i.test((error as Error).message)) return { entries: undefined, oldestMs: 0 }
    throw error
  }
  const field = (name: string) => info[info.indexOf(name) + 1]
  const first = field('first-entry') as [id: string, fields: unknown] | null
  const oldestMs = first === null ? 0 : Math.max(0, nowMs - Number(first[0].split('-')[0]))
  return { entries: Number(field('length')), oldestMs }
}
