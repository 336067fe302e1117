import { gateKey } from '../../lua/keys.ts'
import type { Lease } from '../../lua/stock.ts'
import type { Finding, PrimedBucket } from './identity.ts'
import type { Withheld } from './lease.ts'

/** What the guardian remembers of a bucket. */
export interface Watched {
  bucket: PrimedBucket
  /** Of the last check in this life of Redis. */
  finding: Finding | undefined
  /** By performance.now(). */
  checkDueAt: number
  /** The last answer to a renewal in this life of Redis. */
  lease: Lease | undefined
  withheld: Withheld | 'postgres_away' | 'redis_away' | undefined
}

/** Takes on buckets that became active, and drops those that are no longer. */
export function updateWatchList(list: Map<string, Watched>, active: readonly PrimedBucket[]): void {
  const byKey = new Map(active.map((bucket) => [gateKey(bucket), bucket]))
  for (const key of list.keys()) if (!byKey.has(key)) list.delete(key)
  for (const [key, bucket] of byKey)
    if (!list.has(key))
      list.set(key, {
        bucket,
        finding: undefined,
        checkDueAt: 0,
        lease: undefined,
        withheld: undefined,
      })
}

/** Nothing known in another life of Redis counts in this one. */
export function forgetFinding(one: Watched): void {
  one.finding = undefined
  one.lease = undefined
  one.checkDueAt = 0
}

/**
 * The buckets of campaigns whose other buckets are all known to be empty. What isn't known counts as stock: a false
 * SOLD_OUT would turn people away for good.
 */
export function findFinal(list: Iterable<Watched>): Set<Watched> {
  const byCampaign = new Map<string, Watched[]>()
  for (const one of list) {
    const { campaignId } = one.bucket
    const others = byCampaign.get(campaignId)
    if (others === undefined) byCampaign.set(campaignId, [one])
    else others.push(one)
  }
  const final = new Set<Watched>()
  for (const buckets of byCampaign.values()) {
    const stocked = buckets.filter(({ lease }) => lease?.remaining !== 0)
    for (const one of buckets) if (stocked.every((other) => other === one)) final.add(one)
  }
  return final
}
