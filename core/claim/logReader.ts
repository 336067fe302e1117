import type { Redis } from 'ioredis'
import type { Logger } from 'pino'
import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { RedisClient } from '../stores/store.ts'
import type { RawEntry } from './batch.ts'
import { causeOf } from './failures.ts'
import { within } from './patience.ts'

export interface Batch {
  bucket: Bucket
  entries: RawEntry[]
}

/** Reads what is new in the logs, waiting for it on a connection of its own. */
export interface LogReader {
  /**
   * At most `countEach` entries of each log, as soon as there are any; nothing after limits.drainBlockMs.
   * @throws when the connection broke or hangs: entries may then have been delivered into the void, and stand in
   * our own pending list.
   */
  read(buckets: readonly Bucket[], countEach: number): Promise<Batch[]>
  /** Ends a wait, best effort. */
  wake(): void
  close(): void
}

export interface LogReaderOptions {
  /** For short commands, to the same server. */
  redis: RedisClient
  /** Makes a connection that may block. */
  connect(): Redis
  consumer: string
  log: Logger
}

/** A reply may be late by this much before the connection is given up: after a reconnect it can hang for ever. */
const graceMs = 5_000

export function openLogReader({ redis, connect, consumer, log }: LogReaderOptions): LogReader {
  let connection: Redis | undefined
  let clientId: number | undefined

  function connected(): Redis {
    if (connection !== undefined) return connection
    const fresh = connect()
    fresh.on('error', (error) =>
      log.debug({ cause: causeOf(error) }, 'the drain’s connection to Redis failed'),
    )
    fresh.on('ready', () => {
      // Only to end waits early; a Redis that does not know the command makes them end by themselves.
      fresh.client('ID').then(
        (id) => {
          clientId = id
        },
        () => undefined,
      )
    })
    connection = fresh
    return fresh
  }

  function giveUp(): void {
    connection?.disconnect()
    connection = undefined
    clientId = undefined
  }

  return {
    async read(buckets, countEach) {
      if (buckets.length === 0) return []
      const keys = buckets.map(logKey)
      try {
        const reading = connected().xreadgroup(
          ...(['GROUP', drainGroup, consumer, 'COUNT', countEach, 'BLOCK', limits.drainBlockMs] as const),
          ...(['STREAMS', ...keys, ...keys.map(() => '>')] as const),
        ) as Promise<XReadReply>
        return batchesOf(
          await within(reading, limits.drainBlockMs + graceMs, 'a blocking read'),
          buckets,
          keys,
        )
      } catch (error) {
        if (isMissing(error)) {
          log.error(
            { cause: causeOf(error) },
            'a log or its consumer group is gone; making it again, from its first entry',
          )
          await ensureGroups(redis, keys)
          return []
        }
        giveUp()
        throw error
      }
    },
    wake() {
      if (clientId !== undefined) redis.client('UNBLOCK', clientId).catch(() => undefined)
    },
    close: giveUp,
  }
}

/** What XREADGROUP says: nothing, or for each log that has entries, its key and them. */
export type XReadReply = [key: string, entries: [id: string, fields: string[] | null][]][] | null

export function batchesOf(reply: XReadReply, buckets: readonly Bucket[], keys: readonly string[]): Batch[] {
  const byKey = new Map(keys.map((key, i) => [key, buckets[i]!]))
  return (reply ?? []).map(([key, entries]) => ({
    bucket: byKey.get(key)!,
    entries: entries.map(([id, fields]) => ({ id, fields: fields ?? [] })),
  }))
}

/** The group was deleted, or the log with it, before or while we waited (case-H10). */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && /^(NOGROUP|UNBLOCKED)/.test(error.message)
}

/** Makes logs and groups that are missing, from the first entry, so that nothing that is there is skipped. */
export async function ensureGroups(redis: RedisClient, keys: readonly string[]): Promise<void> {
  await Promise.all(
    keys.map((key) =>
      redis.xgroup('CREATE', key, drainGroup, '0', 'MKSTREAM').catch((error: Error) => {
        if (!error.message.startsWith('BUSYGROUP')) throw error
      }),
    ),
  )
}
