import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { RedisClient } from '../stores/store.ts'
import type { RawEntry } from './batch.ts'
import { ensureGroups, isMissing, type XReadReply } from './logReader.ts'

/** An entry that was delivered before and never settled. */
export interface Recovered extends RawEntry {
  /** How often it was delivered, this time included. */
  deliveries: number
}

export interface RecoverOptions {
  redis: RedisClient
  consumer: string
  /** Entries of a consumer that was silent for so long are taken over. */
  idleMs: number
  /** Entries in our hands: they are not ours from a life before. */
  isInHand(bucket: Bucket, entryId: string): boolean
  /** Told of entries that were delivered and are gone from the log: data loss. */
  lost(bucket: Bucket, entryIds: string[]): void
  /** Takes entries on: resolves when there was room for them, `done` when they are settled. */
  handle(bucket: Bucket, entries: Recovered[]): Promise<{ done: Promise<void> }>
}

/**
 * An entry delivered this often may have ended the process that handled it. It is handled alone, and read alone,
 * so that only the count of the one that ends us grows.
 */
const suspectDeliveries = limits.deliveriesMax

/** Our own pending entries: of a life before under this name, or of a reply that never reached us. */
export async function recoverOwn(options: RecoverOptions, bucket: Bucket): Promise<void> {
  const { redis, consumer } = options
  const key = logKey(bucket)
  for (let after = '0-0'; ; ) {
    const pending = await pendingAfter(options, key, after, [consumer])
    if (pending.size === 0) return
    const count = someSuspect(pending) ? 1 : limits.drainEntriesMax
    const reply = (await redis.xreadgroup(
      ...(['GROUP', drainGroup, consumer, 'COUNT', count, 'STREAMS', key, after] as const),
    )) as XReadReply
    const entries = reply?.[0]?.[1] ?? []
    if (entries.length === 0) return
    after = entries.at(-1)![0]
    const gone = entries.filter(([, fields]) => fields === null).map(([id]) => id)
    if (gone.length > 0) {
      options.lost(bucket, gone)
      await redis.xack(key, drainGroup, ...gone)
    }
    await take(options, bucket, entries, pending)
  }
}

/** Entries of consumers that died, or that hang (case-H13). */
export async function recoverStale(options: RecoverOptions, bucket: Bucket): Promise<void> {
  const { redis, consumer, idleMs } = options
  const key = logKey(bucket)
  const pending = await pendingAfter(options, key, '0-0', [], idleMs)
  if (pending.size === 0) return
  const count = someSuspect(pending) ? 1 : limits.drainEntriesMax
  for (let cursor = '0-0'; ; ) {
    const [next, entries, gone] = (await redis.xautoclaim(
      ...([key, drainGroup, consumer, idleMs, cursor, 'COUNT', count] as const),
    )) as [string, [string, string[] | null][], string[]?]
    if (gone !== undefined && gone.length > 0) options.lost(bucket, gone)
    await take(options, bucket, entries, pending)
    if (next === '0-0') return
    cursor = next
  }
}

/** Ids and numbers of deliveries of pending entries, in their order, 256 at most. */
async function pendingAfter(
  { redis }: RecoverOptions,
  key: string,
  after: string,
  consumer: string[],
  idleMs = 0,
): Promise<Map<string, number>> {
  try {
    const args = ['IDLE', idleMs, `(${after}`, '+', 256, ...consumer]
    const rows = (await redis.call('XPENDING', key, drainGroup, ...args)) as [
      string,
      string,
      number,
      number,
    ][]
    return new Map(rows.map(([id, , , deliveries]) => [id, deliveries]))
  } catch (error) {
    if (!isMissing(error)) throw error
    await ensureGroups(redis, [key])
    return new Map()
  }
}

function someSuspect(pending: ReadonlyMap<string, number>): boolean {
  for (const deliveries of pending.values()) if (deliveries >= suspectDeliveries) return true
  return false
}

async function take(
  options: RecoverOptions,
  bucket: Bucket,
  entries: readonly [id: string, fields: string[] | null][],
  pending: ReadonlyMap<string, number>,
): Promise<void> {
  const recovered = entries
    .filter(([id, fields]) => fields !== null && !options.isInHand(bucket, id))
    .map(([id, fields]): Recovered => ({ id, fields: fields!, deliveries: (pending.get(id) ?? 0) + 1 }))
  if (recovered.length === 0) return
  const { done } = await options.handle(bucket, recovered)
  // Suspects go one after the other; of the rest the next page may be read meanwhile.
  if (recovered.some(({ deliveries }) => deliveries > suspectDeliveries)) await done
}
