import { renewLease } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'

/** What tests of stock share: campaigns with stock in several buckets, and an independent look at all of it. */

/** Every term of what a campaign's stock adds up to, read from both stores; only where no step is under way. */
export interface Balance {
  quota: number
  unallocated: number
  allocated: number
  inTransit: number
  remaining: number
  accepted: number
  returned: number
}

export async function readBalance(deps: Deps, campaignId: string): Promise<Balance> {
  const [row] = await deps.db.admin.sql<Omit<Balance, 'remaining' | 'accepted' | 'returned'>[]>`
    SELECT s.quota, s.unallocated,
      (SELECT sum(allocated)::bigint FROM buckets b WHERE b.campaign_id = s.campaign_id) AS allocated,
      (SELECT coalesce(sum(amount), 0)::bigint FROM transfers t
        WHERE t.campaign_id = s.campaign_id AND state = 'WITHDRAWN') AS "inTransit"
    FROM campaign_stock s WHERE campaign_id = ${campaignId}`
  const buckets = await deps.db.admin.sql<{ bucket: number }[]>`
    SELECT bucket FROM buckets WHERE campaign_id = ${campaignId}`
  const sums = { remaining: 0, accepted: 0, returned: 0 }
  for (const { bucket } of buckets) {
    const [remaining, accepted, returned] = await deps.redis.hmget(
      `tg:{${campaignId}:${bucket}}:gate`,
      'remaining',
      'accepted',
      'returned',
    )
    sums.remaining += Number(remaining)
    sums.accepted += Number(accepted)
    sums.returned += Number(returned)
  }
  return { ...row!, ...sums }
}

/** Leases as the guardian gives them. */
export async function leaseAll(
  deps: Deps,
  campaignId: string,
  buckets: number,
  final = false,
): Promise<void> {
  await Promise.all(
    Array.from({ length: buckets }, (_, bucket) =>
      renewLease(deps.runner, { campaignId, bucket }, 20 * limits.leaseMs, final),
    ),
  )
}
