import type { Redis } from 'ioredis'
import { Gauge, type Registry } from 'prom-client'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'

/**
 * How many batches are in work at once follows the backlog (IS8): two keep Postgres busy while the next is read,
 * decoded or settled; more help only while entries queue up. The most is what the drain's pool of connections allows
 * beside its own look-ups, so that no batch ever waits for a connection; more processes multiply it.
 */
export const crewMin = 2
export const crewMax = 4

/** Entries per worker that are not worth another one. */
const entriesPerWorker = 2 * limits.drainEntriesMax
/** Looks with less backlog in a row before a worker is let go: bursts come in waves. */
const calmLooks = 8
const lookEveryMs = 250

export interface Crew {
  /** The number of workers for now; looks at the backlog, at most every 250 ms. */
  size(open: readonly Bucket[]): Promise<number>
}

export function makeCrew(redis: Redis, registry: Registry): Crew {
  const gauges = crewGauges(registry)
  let size = crewMin
  let calm = 0
  let lookedAt = Number.NEGATIVE_INFINITY
  gauges.workers.set(size)
  gauges.most.set(crewMax)

  return {
    async size(open) {
      if (performance.now() - lookedAt < lookEveryMs) return size
      lookedAt = performance.now()
      const lengths = await Promise.all(open.map((bucket) => redis.xlen(logKey(bucket))))
      const backlog = lengths.reduce((sum, length) => sum + length, 0)
      const wanted = crewFor(backlog)
      calm = wanted < size ? calm + 1 : 0
      if (wanted > size) size = wanted
      else if (calm >= calmLooks) {
        size -= 1
        calm = 0
      }
      gauges.backlog.set(backlog)
      gauges.workers.set(size)
      return size
    },
  }
}

/** For so many entries in the logs. */
export function crewFor(backlogEntries: number): number {
  return Math.min(crewMax, Math.max(crewMin, Math.ceil(backlogEntries / entriesPerWorker)))
}

function crewGauges(registry: Registry) {
  const gauge = (name: string, help: string) =>
    (registry.getSingleMetric(name) as Gauge | undefined) ?? new Gauge({ name, help, registers: [registry] })
  return {
    workers: gauge('tidegate_drain_workers', 'Batches that this process may have in work at once.'),
    most: gauge('tidegate_drain_workers_max', 'The most of them: what its database connections allow.'),
    backlog: gauge('tidegate_drain_backlog_entries', 'Log entries that are not settled, as last seen here.'),
  }
}
