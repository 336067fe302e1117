import type { Redis } from 'ioredis'
import type postgres from 'postgres'
import { type AuditedRecord, readRecords } from '../audit/records.ts'

/**
 * What the stores hold of one campaign, once all is quiet, and what of DESIGN §3 it breaks. Written from the
 * invariants and the tables; it shares no code with the claim path.
 */

export interface AuditedCoupon {
  user_id: string
  request_id: string
  coupon_id: string
}

export interface AuditedClaim {
  user_id: string
  request_id: string
  status: string
  reason: string | null
  coupon_id: string | null
  token_id: string
  key_fingerprint: string
  /** −1 for one that was rejected by its receipt: it never took stock. */
  entry_seq: number
  /** ms; undefined for one that is open. */
  settled_ms: number | undefined
}

export interface Ledger {
  state: string
  quota: number
  perUserLimit: number
  bucketCount: number
  stockQuota: number
  counter: number
  unallocated: number
  withdrawn: number
  inTransit: number
  coupons: AuditedCoupon[]
  claims: AuditedClaim[]
  compensations: { user_id: string; request_id: string; state: string }[]
  /** Requests of ledger rows that say that a coupon was issued or a claim rejected, as often as they stand there. */
  ledgerRows: { request_id: string; kind: string }[]
  events: { request_id: string; type: string }[]
  deadLetters: number
  unpublished: number
  /** Promised twice after a loss, and written off by an operator's forced rebuild, as the audit log says. */
  writtenOff: number
}

export interface Gates {
  gates: number
  remaining: number
  accepted: number
  returned: number
  entries: number
  records: AuditedRecord[]
  leasedUntilMs: number
}

export async function readLedger(sql: postgres.Sql, campaignId: string): Promise<Ledger> {
  const [campaign, coupons, claims, compensations, ledgerRows, events, others] = await Promise.all([
    sql`
      SELECT c.state, c.quota, c.per_user_limit, c.bucket_count, s.quota AS stock_quota, s.issued, s.unallocated,
        s.withdrawn
      FROM campaigns c JOIN campaign_stock s USING (campaign_id) WHERE campaign_id = ${campaignId}`,
    sql<
      AuditedCoupon[]
    >`SELECT user_id, request_id::text, coupon_id::text FROM coupons WHERE campaign_id = ${campaignId}`,
    sql<AuditedClaim[]>`
      SELECT user_id, request_id::text, status, reason, coupon_id::text, token_id, key_fingerprint, entry_seq::int,
        (extract(epoch FROM settled_at) * 1000)::float8 AS settled_ms
      FROM claims WHERE campaign_id = ${campaignId}`,
    sql<Ledger['compensations']>`
      SELECT user_id, request_id::text, state FROM compensations WHERE campaign_id = ${campaignId}`,
    sql<Ledger['ledgerRows']>`
      SELECT request_id::text, kind FROM ledger
      WHERE campaign_id = ${campaignId} AND kind IN ('coupon.issued', 'claim.rejected')`,
    sql<Ledger['events']>`
      SELECT request_id::text, type FROM outbox WHERE type IN ('claim.delivered', 'claim.rejected')`,
    sql`
      SELECT (SELECT count(*)::int FROM dead_letters) AS dead,
        (SELECT count(*)::int FROM outbox WHERE published_at IS NULL) AS unpublished,
        (SELECT coalesce(sum(amount), 0)::int FROM transfers WHERE state = 'WITHDRAWN') AS moving,
        (SELECT coalesce(sum((after ->> 'written_off')::int), 0)::int FROM audit_log
          WHERE action = 'bucket.rebuild') AS written_off`,
  ])
  const row = campaign[0]!
  return {
    state: String(row['state']),
    quota: Number(row['quota']),
    perUserLimit: Number(row['per_user_limit']),
    bucketCount: Number(row['bucket_count']),
    stockQuota: Number(row['stock_quota']),
    counter: Number(row['issued']),
    unallocated: Number(row['unallocated']),
    withdrawn: Number(row['withdrawn']),
    inTransit: Number(others[0]!['moving']),
    coupons: [...coupons],
    claims: [...claims],
    compensations: [...compensations],
    ledgerRows: [...ledgerRows],
    events: [...events],
    deadLetters: Number(others[0]!['dead']),
    unpublished: Number(others[0]!['unpublished']),
    writtenOff: Number(others[0]!['written_off']),
  }
}

export async function readGates(redis: Redis, campaignId: string, bucketCount: number): Promise<Gates> {
  const all: Gates = {
    gates: 0,
    remaining: 0,
    accepted: 0,
    returned: 0,
    entries: 0,
    records: [],
    leasedUntilMs: Infinity,
  }
  for (let bucket = 0; bucket < bucketCount; bucket++) {
    const prefix = `tg:{${campaignId}:${bucket}}`
    const [gate, entries, users] = await Promise.all([
      redis.hgetall(`${prefix}:gate`),
      redis.xlen(`${prefix}:log`),
      redis.hgetall(`${prefix}:users`),
    ])
    all.entries += entries
    if (gate['state'] === undefined) continue
    all.gates += 1
    all.remaining += Number(gate['remaining'])
    all.accepted += Number(gate['accepted'])
    all.returned += Number(gate['returned'])
    all.leasedUntilMs = Math.min(all.leasedUntilMs, Number(gate['lease_until']))
    for (const [user, field] of Object.entries(users)) all.records.push(...readRecords(user, field))
  }
  return all
}

/** @param losses how often Redis forgot something: what it was told twice, it may then have accepted twice. */
export function judgeStores(ledger: Ledger, gates: Gates, losses: number): string[] {
  const broken: string[] = []
  const { coupons, claims } = ledger
  const most = Math.max(coupons.length, ledger.counter)
  if (most > ledger.quota) broken.push(`1: ${most} coupons, and a quota of ${ledger.quota}`)
  if (ledger.counter !== coupons.length || ledger.stockQuota !== ledger.quota)
    broken.push(
      `1: counted ${ledger.counter} of ${ledger.stockQuota}; there are ${coupons.length} of ${ledger.quota}`,
    )
  twice(
    coupons,
    ({ user_id }) => user_id,
    ledger.perUserLimit,
    (user, n) => broken.push(`2: ${user} has ${n} coupons, and the limit is ${ledger.perUserLimit}`),
  )
  twice(
    coupons,
    ({ request_id }) => request_id,
    1,
    (id, n) => broken.push(`4: request ${id} has ${n} coupons`),
  )
  if (losses === 0) {
    twice(
      claims,
      (claim) => `${claim.user_id} ${claim.token_id}`,
      1,
      (token) => broken.push(`4: token ${token} was accepted twice`),
    )
    twice(
      gates.records,
      (record) => `${record.userId} ${record.token}`,
      1,
      (token) => broken.push(`4: token ${token} stands twice in Redis`),
    )
    twice(
      gates.records,
      (record) => `${record.userId} ${record.key}`,
      1,
      (key) => broken.push(`4: key ${key} stands twice in Redis`),
    )
  }
  judgeClaims(ledger, broken)
  judgeReturns(ledger, gates, broken)
  judgeIdentity(ledger, gates, broken)
  return broken
}

function judgeClaims(ledger: Ledger, broken: string[]): void {
  const coupons = new Map(ledger.coupons.map((coupon) => [coupon.request_id, coupon]))
  const rows = new Map<string, number>()
  for (const { request_id, kind } of ledger.ledgerRows) {
    const name = `${request_id} ${kind}`
    rows.set(name, (rows.get(name) ?? 0) + 1)
  }
  const events = new Map<string, number>()
  for (const { request_id, type } of ledger.events)
    events.set(`${request_id} ${type}`, (events.get(`${request_id} ${type}`) ?? 0) + 1)
  for (const claim of ledger.claims) {
    const { request_id: id, status, user_id } = claim
    const coupon = coupons.get(id)
    coupons.delete(id)
    if (status !== 'DELIVERED' && status !== 'REJECTED') {
      broken.push(`5: request ${id} of ${user_id} is ${status} for ever`)
      continue
    }
    const delivered = status === 'DELIVERED'
    if (delivered !== (coupon?.user_id === user_id && coupon.coupon_id === claim.coupon_id))
      broken.push(`5: request ${id} is ${status}, and its coupon is ${JSON.stringify(coupon)}`)
    if (!delivered && claim.reason === null) broken.push(`5: request ${id} is rejected without a reason`)
    const kind = delivered ? 'coupon.issued' : 'claim.rejected'
    if (rows.get(`${id} ${kind}`) !== 1)
      broken.push(`8: request ${id} has ${rows.get(`${id} ${kind}`) ?? 0} ledger rows of ${kind}`)
    const type = delivered ? 'claim.delivered' : 'claim.rejected'
    if (events.get(`${id} ${type}`) !== 1)
      broken.push(`5: request ${id} has ${events.get(`${id} ${type}`) ?? 0} events of ${type}`)
  }
  for (const id of coupons.keys()) broken.push(`4: a coupon of request ${id}, which is no claim`)
  if (ledger.deadLetters > 0)
    broken.push(`5: ${ledger.deadLetters} claims were set aside as unreadable or impossible`)
}

function judgeReturns(ledger: Ledger, gates: Gates, broken: string[]): void {
  const claims = new Map(ledger.claims.map((claim) => [claim.request_id, claim]))
  for (const { request_id, state } of ledger.compensations) {
    const claim = claims.get(request_id)
    if (claim?.status !== 'REJECTED')
      broken.push(`6: the stock of request ${request_id} is owed, and it is ${claim?.status}`)
    if (state !== 'CLOSED') broken.push(`6: the stock of request ${request_id} is not returned: ${state}`)
  }
  if (gates.returned > ledger.compensations.length)
    broken.push(`6: ${gates.returned} returns for ${ledger.compensations.length} rejected requests`)
  for (const record of gates.records)
    if (record.state === 'R' && claims.get(record.requestId)?.status === 'DELIVERED')
      broken.push(`6: the stock of request ${record.requestId} was returned, and it is a coupon`)
}

function judgeIdentity(ledger: Ledger, gates: Gates, broken: string[]): void {
  // One that was rejected after Redis had lost its acceptance, and the gate was rebuilt, took nothing of this gate.
  const recorded = new Set(gates.records.map(({ requestId }) => requestId))
  const settled = ledger.claims.filter(
    ({ entry_seq, status, request_id }) =>
      entry_seq >= 0 && (status === 'DELIVERED' || (status === 'REJECTED' && recorded.has(request_id))),
  ).length
  const terms = {
    remaining: gates.remaining,
    in_transit: ledger.inTransit,
    unallocated: ledger.unallocated,
    accepted_not_settled: gates.accepted - settled,
    issued: ledger.coupons.length,
    awaiting_return: ledger.compensations.filter(({ state }) => state !== 'APPLIED' && state !== 'CLOSED')
      .length,
    withdrawn: ledger.withdrawn,
  }
  const sum = Object.values(terms).reduce((all, term) => all + term, 0)
  if (gates.gates !== ledger.bucketCount)
    broken.push(`9: ${gates.gates} of ${ledger.bucketCount} gates are there`)
  else if (sum !== ledger.quota + ledger.writtenOff || terms.accepted_not_settled < 0)
    broken.push(
      `9: ${JSON.stringify(terms)} is ${sum}, the quota ${ledger.quota}, written off ${ledger.writtenOff}`,
    )
}

function twice<T>(
  items: readonly T[],
  keyOf: (item: T) => string,
  most: number,
  found: (key: string, n: number) => void,
): void {
  const counts = new Map<string, number>()
  for (const item of items) counts.set(keyOf(item), (counts.get(keyOf(item)) ?? 0) + 1)
  for (const [key, count] of counts) if (count > most) found(key, count)
}
