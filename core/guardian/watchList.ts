import { gateKey } from '../../lua/keys.ts'
import type { Lease } from '../../lua/stock.ts'
import { isFinal } from '../stock/tail.ts'
import type { Finding, PrimedBucket } from './identity.ts'
import { type Incarnation, isSameLife } from './incarnation.ts'
import type { Withheld } from './lease.ts'

/** What the guardian remembers of a bucket. */
export interface Watched {
  bucket: PrimedBucket
  /** The life of the server that had the bucket when it was last looked at. */
  life: Incarnation | undefined
  /** An earlier life was seen, or another server. */
  livedBefore: boolean
  /** Of the last check in this life of Redis. */
  finding: Finding | undefined
  /** By performance.now(). */
  checkDueAt: number
  /** When it is compared with the ledger again although it held; by performance.now(). */
  recheckAt: number
  /** The last check didn't hold though the one before did: the next one is believed. */
  doubted: boolean
  /** The last answer to a renewal in this life of Redis. */
  lease: Lease | undefined
  withheld: Withheld | 'postgres_away' | 'redis_away' | undefined
  /** Acceptances that are settled nowhere although the log is empty: how many, since when, and whether checked. */
  stranded: { claims: number; sinceMs: number; checked: boolean } | undefined
}

/** So long may a claim be between the log and its settlement, or between our two looks. */
const strandedMs = 5_000

/**
 * Keeps account of acceptances without a log entry. They are claims held for review, or the log lost them: only the
 * check against the ledger can tell, so that is due once for each number of them that lasts.
 */
export function noteStranded(one: Watched, entries: number | undefined, nowMs: number): void {
  const claims = entries === 0 && one.lease !== undefined ? one.lease.accepted - one.lease.settled : 0
  if (claims === 0) one.stranded = undefined
  else if (one.stranded?.claims !== claims) one.stranded = { claims, sinceMs: nowMs, checked: false }
}

/** Whether the bucket must be compared with the ledger now; `now` and `checkDueAt` are of performance.now(). */
export function isCheckDue(one: Watched, now: number): boolean {
  if (now < one.checkDueAt) return false
  if (one.finding === undefined || !one.finding.holds || now >= one.recheckAt) return true
  return one.stranded !== undefined && !one.stranded.checked && now - one.stranded.sinceMs > strandedMs
}

/** A check reads the ledger's claims: it may take this part of the time, and not oftener than this. */
const recheckEveryMs = 15_000
const recheckCostFactor = 20

/**
 * Whether a check's finding counts. A bucket that held may just have a backlog, in which nothing can be said; and
 * for whatever else is found with it, a second look at once must find it too.
 */
export function believe(one: Watched, finding: Finding, now: number, tookMs: number): boolean {
  one.recheckAt = now + Math.max(recheckEveryMs, recheckCostFactor * tookMs)
  const held = one.finding?.holds === true
  if (held && !finding.holds) {
    if (finding.why === 'backlog') return false
    if (!one.doubted) {
      one.doubted = true
      one.recheckAt = now
      return false
    }
  }
  one.doubted = false
  return true
}

/** What the guardian does with a bucket. */
export interface BucketView {
  bucket: PrimedBucket
  withheld: Watched['withheld']
  /** ms since the epoch, by the clock of Redis; undefined before the first renewal. */
  leaseUntilMs: number | undefined
  detail: string | undefined
}

export function viewOf({ bucket, withheld, lease, finding }: Watched): BucketView {
  const detail = finding === undefined || finding.holds ? undefined : finding.detail
  return { bucket, withheld, leaseUntilMs: lease?.leaseUntilMs, detail }
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
        life: undefined,
        livedBefore: false,
        finding: undefined,
        checkDueAt: 0,
        recheckAt: 0,
        doubted: false,
        lease: undefined,
        withheld: undefined,
        stranded: undefined,
      })
}

/** Nothing known in another life of Redis counts in this one. */
export function forgetFinding(one: Watched): void {
  one.finding = undefined
  one.lease = undefined
  one.checkDueAt = 0
  one.doubted = false
  one.stranded = undefined
}

/** Takes note of the life of Redis in which the bucket is now; whether it is another than before. */
export function noteLife(one: Watched, now: Incarnation): boolean {
  const before = one.life
  one.life = now
  if (before === undefined || isSameLife(before, now)) return false
  one.livedBefore = true
  forgetFinding(one)
  return true
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
