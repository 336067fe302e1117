import { setTimeout as pause } from 'node:timers/promises'
import { Cluster, Redis } from 'ioredis'
import postgres from 'postgres'
import { type AuditedRecord, readRecords } from './records.ts'

const looksMax = 4
const lookAgainMs = 300

/** What a client was told about an acceptance. */
export interface Told {
  userId: string
  requestId: string
}

export interface Verdict {
  /** Coupons beyond the approved quota, by the coupons themselves and by the ledger's counter. */
  oversold: number
  /** Acceptances that a client saw and that ended neither delivered nor rejected with a reason. */
  lost: number
  /** Users over their limit, requests with two coupons, tokens with two acceptances. */
  duplicates: number
  /** Invariant 9, term by term. */
  identity_holds: boolean
  identity: Record<string, number>
  /** Each broken invariant, in words. */
  violations: string[]
}

export interface AuditTarget {
  databaseUrl: string
  /** Of the Redis that has the campaign's gates; with commas of a cluster's nodes. */
  redisUrl: string
  campaignId: string
  told: readonly Told[]
}

/**
 * Checks invariants 1, 2, 4, 5 and 9 of DESIGN §3 from what stands in Postgres and Redis, once both are at rest.
 * Written from the invariants; it shares no code with the claim path.
 */
export async function audit(target: AuditTarget): Promise<Verdict> {
  const sql = postgres(target.databaseUrl, { max: 2, onnotice: () => undefined })
  const redis = connect(target.redisUrl)
  try {
    for (let look = 1; ; look++) {
      const ledger = await readLedger(sql, target.campaignId)
      const store = await readStore(redis, target.campaignId, ledger.bucketCount)
      const verdict = judge(ledger, store, target.told)
      // Stock that moves between buckets meanwhile is seen twice or never: what is really missing stays so.
      if (verdict.identity_holds || look === looksMax) return verdict
      await pause(lookAgainMs)
    }
  } finally {
    redis.disconnect()
    await sql.end({ timeout: 5 })
  }
}

function connect(urls: string): Redis | Cluster {
  if (!urls.includes(',')) return new Redis(urls)
  const nodes = urls
    .split(',')
    .map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) }))
  return new Cluster(nodes)
}

interface AuditedClaim {
  user_id: string
  request_id: string
  status: string
  reason: string | null
  token_id: string
  /** It stood in a log; otherwise it was rejected by its receipt. */
  from_log: boolean
}

interface Ledger {
  quota: number
  perUserLimit: number
  bucketCount: number
  counter: number
  unallocated: number
  withdrawn: number
  coupons: { user_id: string; request_id: string; state: string }[]
  claims: AuditedClaim[]
  /** Rejected, and the stock not given back yet. */
  awaitingReturn: number
}

async function readLedger(sql: postgres.Sql, campaignId: string): Promise<Ledger> {
  const [campaign] =
    await sql`SELECT quota, per_user_limit, bucket_count FROM campaigns WHERE campaign_id = ${campaignId}`
  const [stock] =
    await sql`SELECT issued, unallocated, withdrawn FROM campaign_stock WHERE campaign_id = ${campaignId}`
  if (!campaign || !stock) throw new Error(`no campaign ${campaignId} in the database`)
  const coupons = await sql<Ledger['coupons']>`
    SELECT user_id, request_id::text, state FROM coupons WHERE campaign_id = ${campaignId}`
  const claims = await sql<Ledger['claims']>`
    SELECT user_id, request_id::text, status, reason, token_id, entry_seq >= 0 AS from_log
    FROM claims WHERE campaign_id = ${campaignId}`
  const [waiting] = await sql`
    SELECT count(*)::int AS n FROM compensations
    WHERE campaign_id = ${campaignId} AND state NOT IN ('APPLIED', 'CLOSED')`
  return {
    quota: Number(campaign['quota']),
    perUserLimit: Number(campaign['per_user_limit']),
    bucketCount: Number(campaign['bucket_count']),
    counter: Number(stock['issued']),
    unallocated: Number(stock['unallocated']),
    withdrawn: Number(stock['withdrawn']),
    coupons: [...coupons],
    claims: [...claims],
    awaitingReturn: Number(waiting!['n']),
  }
}

interface Store {
  remaining: number
  accepted: number
  returned: number
  gates: number
  /** Entries that nobody has settled. */
  entries: number
  records: AuditedRecord[]
}

async function readStore(redis: Redis | Cluster, campaignId: string, bucketCount: number): Promise<Store> {
  const store: Store = { remaining: 0, accepted: 0, returned: 0, gates: 0, entries: 0, records: [] }
  for (let bucket = 0; bucket < bucketCount; bucket++) {
    const prefix = `tg:{${campaignId}:${bucket}}`
    const gate = await redis.hgetall(`${prefix}:gate`)
    if (gate['state'] === undefined) continue
    store.gates++
    store.remaining += Number(gate['remaining'])
    store.accepted += Number(gate['accepted'])
    store.returned += Number(gate['returned'])
    store.entries += await redis.xlen(`${prefix}:log`)
    let cursor = '0'
    do {
      const [next, pairs] = await redis.hscan(`${prefix}:users`, cursor, 'COUNT', 1000)
      cursor = next
      for (let i = 0; i < pairs.length; i += 2) store.records.push(...readRecords(pairs[i]!, pairs[i + 1]!))
    } while (cursor !== '0')
  }
  return store
}

function judge(ledger: Ledger, store: Store, told: readonly Told[]): Verdict {
  const violations: string[] = []
  const oversold = Math.max(0, Math.max(ledger.coupons.length, ledger.counter) - ledger.quota)
  if (oversold > 0) violations.push(`1: ${oversold} coupons over the quota of ${ledger.quota}`)
  if (ledger.counter !== ledger.coupons.length)
    violations.push(`1: the counter says ${ledger.counter}, there are ${ledger.coupons.length} coupons`)

  const duplicates = judgeDuplicates(ledger, store, violations)
  const lost = judgeLost(ledger, told, violations)

  // A claim that was rejected by its receipt never took stock; one that was rejected after Redis had lost its
  // acceptance, and the gate was rebuilt without it, took nothing of this gate.
  const recorded = new Set(store.records.map(({ requestId }) => requestId))
  const settled = ledger.claims.filter(
    ({ status, from_log, request_id }) =>
      from_log && (status === 'DELIVERED' || (status === 'REJECTED' && recorded.has(request_id))),
  ).length
  const identity = {
    quota: ledger.quota,
    remaining: store.remaining,
    unallocated: ledger.unallocated,
    accepted_not_settled: store.accepted - settled,
    issued: ledger.coupons.length,
    rejected_awaiting_return: ledger.awaitingReturn,
    withdrawn: ledger.withdrawn,
  }
  const { quota, ...terms } = identity
  const sum = Object.values(terms).reduce((all, term) => all + term, 0)
  const identityHolds = sum === quota && identity.accepted_not_settled >= 0
  if (!identityHolds) violations.push(`9: ${JSON.stringify(terms)} is ${sum}, the quota ${quota}`)
  return { oversold, lost, duplicates, identity_holds: identityHolds, identity, violations }
}

function judgeDuplicates(ledger: Ledger, store: Store, violations: string[]): number {
  let found = 0
  const report = (invariant: number, counts: Map<string, number>, most: number, what: string) => {
    const over = [...counts.values()].filter((count) => count > most).length
    if (over > 0) violations.push(`${invariant}: ${over} ${what}`)
    found += over
  }
  report(
    2,
    countBy(ledger.coupons, ({ user_id }) => user_id),
    ledger.perUserLimit,
    'users have more coupons than the limit',
  )
  report(
    4,
    countBy(ledger.coupons, ({ request_id }) => request_id),
    1,
    'requests have more than one coupon',
  )
  report(
    4,
    countBy(ledger.claims, (claim) => JSON.stringify([claim.user_id, claim.token_id])),
    1,
    'tokens were accepted more than once',
  )
  report(
    4,
    countBy(store.records, (record) => JSON.stringify([record.userId, record.token])),
    1,
    'tokens stand more than once in Redis',
  )
  report(
    4,
    countBy(store.records, (record) => JSON.stringify([record.userId, record.key])),
    1,
    'keys stand more than once in Redis',
  )
  return found
}

function judgeLost(ledger: Ledger, told: readonly Told[], violations: string[]): number {
  const coupons = new Map(ledger.coupons.map((coupon) => [coupon.request_id, coupon.user_id]))
  const claims = new Map(ledger.claims.map((claim) => [claim.request_id, claim]))
  let lost = 0
  for (const { userId, requestId } of told) {
    const claim = claims.get(requestId)
    const delivered = claim?.status === 'DELIVERED' && coupons.get(requestId) === userId
    const rejected = claim?.status === 'REJECTED' && claim.reason !== null
    if (claim?.user_id !== userId || !(delivered || rejected)) lost++
  }
  if (lost > 0) violations.push(`5: ${lost} of ${told.length} acceptances that clients saw are not settled`)
  return lost
}

function countBy<T>(items: readonly T[], keyOf: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1)
  return counts
}
