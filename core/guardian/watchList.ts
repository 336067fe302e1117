import { gateKey } from '../../lua/keys.ts'
import type { Lease } from '../../lua/stock.ts'
import { isFinal } from '../stock/tail.ts'
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
    if (list.has(key)) list.get(key)!.bucket = bucket
    else
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

/** The buckets that may say SOLD_OUT when they are empty: by their campaign's policy and what is elsewhere. */
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
    const { tailPolicy, elsewhere } = buckets[0]!.bucket
    // Only those with stock, or that nobody knows, can keep another from being final: seldom many.
    const stocked = buckets.filter(({ lease }) => lease?.remaining !== 0)
    for (const one of buckets) {
      const others = stocked.slice(0, 2).filter((other) => other !== one)
      const left = others.map(({ lease }) => lease?.remaining)
      if (isFinal(tailPolicy, left, elsewhere)) final.add(one)
    }
  }
  return final
}
