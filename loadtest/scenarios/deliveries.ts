import type { Sql } from 'postgres'
import { Latencies } from '../measure/percentiles.ts'
import type { LatencyRecord } from '../record/record.ts'
import { percentileOf, recordOf } from './tally.ts'

/** When each accepted claim's result was told to listeners, read from the ledger once all is over. */

export interface Delivery {
  userId: string
  campaignId: string
  acceptedAtMs: number
  publishedAtMs: number
  /** Hash partition of the claims that the user belongs to. */
  partition: string
}

export async function readDeliveries(sql: Sql, campaignIds: readonly string[]): Promise<Delivery[]> {
  const rows = await sql<
    { user_id: string; campaign_id: string; accepted: number; published: number; partition: string }[]
  >`
    SELECT c.user_id, c.campaign_id, c.tableoid::regclass::text AS partition,
      (extract(epoch FROM c.accepted_at) * 1000)::float8 AS accepted,
      (extract(epoch FROM o.published_at) * 1000)::float8 AS published
    FROM claims c JOIN outbox o ON o.user_id = c.user_id AND o.request_id = c.request_id
    WHERE c.campaign_id = ANY(${[...campaignIds]}) AND o.type = 'claim.delivered' AND o.published_at IS NOT NULL`
  return rows.map((row) => ({
    userId: row.user_id,
    campaignId: row.campaign_id,
    acceptedAtMs: row.accepted,
    publishedAtMs: row.published,
    partition: row.partition,
  }))
}

/** Accepted → told; `groupOf` splits them under names of their own beside the whole. */
export function deliveryLatencies(
  deliveries: readonly Delivery[],
  groupOf?: (delivery: Delivery) => string | undefined,
): LatencyRecord[] {
  const all = new Map<string, Latencies>()
  const record = (name: string, ms: number) => {
    const latencies = all.get(name) ?? new Latencies()
    all.set(name, latencies)
    latencies.record(ms)
  }
  for (const delivery of deliveries) {
    const ms = Math.max(0, delivery.publishedAtMs - delivery.acceptedAtMs)
    record('deliver', ms)
    const group = groupOf?.(delivery)
    if (group !== undefined) record(`deliver ${group}`, ms)
  }
  return [...all].map(([name, latencies]) => recordOf(name, latencies))
}

/** The 99th percentile of those told in each sample of a timeline. */
export function deliveryLine(
  deliveries: readonly Delivery[],
  startedAtMs: number,
  everyMs: number,
  samples: number,
): (number | null)[] {
  const told = Array.from({ length: samples }, (): number[] => [])
  for (const { acceptedAtMs, publishedAtMs } of deliveries)
    told[Math.floor((publishedAtMs - startedAtMs) / everyMs)]?.push(publishedAtMs - acceptedAtMs)
  return told.map((values) => percentileOf(values, 99))
}

/** How long after an instant the last of those accepted before it was told, ms: what a disturbance leaves behind. */
export function lastToldAfter(deliveries: readonly Delivery[], atMs: number): number {
  let last = 0
  for (const { acceptedAtMs, publishedAtMs } of deliveries)
    if (acceptedAtMs < atMs) last = Math.max(last, publishedAtMs - atMs)
  return last
}
