import { Gauge, type Registry } from 'prom-client'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { RedisClient } from '../stores/store.ts'

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

/** @param stores how many drains of this process share the pool of connections, one for each store. */
export function makeCrew(redis: RedisClient, registry: Registry, store = 'main', stores = 1): Crew {
  const gauges = crewGauges(registry, store)
  const most = Math.max(1, Math.floor(crewMax / stores))
  const least = Math.min(crewMin, most)
  let size = least
  let calm = 0
  let lookedAt = Number.NEGATIVE_INFINITY
  gauges.workers(size)
  gauges.most(most)

  return {
    async size(open) {
      if (performance.now() - lookedAt < lookEveryMs) return size
      lookedAt = performance.now()
      // A log whose node is away has nothing to do for a worker now.
      const lengths = await Promise.allSettled(open.map((bucket) => redis.xlen(logKey(bucket))))
      const backlog = lengths.reduce((sum, one) => sum + (one.status === 'fulfilled' ? one.value : 0), 0)
      const wanted = Math.min(most, crewFor(backlog))
      calm = wanted < size ? calm + 1 : 0
      if (wanted > size) size = wanted
      else if (calm >= calmLooks && size > least) {
        size -= 1
        calm = 0
      }
      gauges.backlog(backlog)
      gauges.workers(size)
      return size
    },
  }
}

/** For so many entries in the logs. */
export function crewFor(backlogEntries: number): number {
  return Math.min(crewMax, Math.max(crewMin, Math.ceil(backlogEntries / entriesPerWorker)))
}

function crewGauges(registry: Registry, store: string) {
  const gauge = (name: string, help: string) => {
    const made =
      (registry.getSingleMetric(name) as Gauge<'store'> | undefined) ??
      new Gauge({ name, help, labelNames: ['store'], registers: [registry] })
    return (value: number) => made.set({ store }, value)
  }
  return {
    workers: gauge('tidegate_drain_workers', 'Batches that this process may have in work at once.'),
    most: gauge('tidegate_drain_workers_max', 'The most of them: what its database connections allow.'),
    backlog: gauge('tidegate_drain_backlog_entries', 'Log entries that are not settled, as last seen here.'),
  }
}
