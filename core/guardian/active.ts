import { limits } from '../../schema/limits.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import type { Deps } from '../deps.ts'
import type { PrimedBucket } from './identity.ts'

/** Stock that arrived since a bucket's last two renewals may be missing in what is known of both its ends. */
const movedLatelyMs = 2.5 * limits.leaseRenewEveryMs

interface ActiveRow {
  campaign_id: string
  bucket: number
  primed_at: Date
  mode: string
  tail_policy: TailPolicy
  elsewhere: number
  epoch: number
}

/** Buckets of campaigns that may accept, with what their leases depend on. */
export async function findActive({ db, clock }: Pick<Deps, 'db' | 'clock'>): Promise<PrimedBucket[]> {
  const rows = await db.admin.sql<ActiveRow[]>`
    SELECT b.campaign_id, b.bucket, b.primed_at, b.epoch, c.mode, c.tail_policy,
      s.unallocated + coalesce(t.open, 0) AS elsewhere
    FROM buckets b
    JOIN campaigns c USING (campaign_id)
    JOIN campaign_stock s USING (campaign_id)
    LEFT JOIN (
      SELECT campaign_id, sum(coalesce(amount, requested))::bigint AS open FROM transfers
      WHERE state <> 'DEPOSITED' OR updated_at > ${new Date(clock() - movedLatelyMs)} GROUP BY campaign_id
    ) t USING (campaign_id)
    WHERE c.state = 'ACTIVE' AND b.primed_at IS NOT NULL`
  return rows.map((row) => ({
    campaignId: row.campaign_id,
    bucket: row.bucket,
    primedAtMs: row.primed_at.getTime(),
    ballot: row.mode === 'ballot',
    tailPolicy: row.tail_policy,
    elsewhere: row.elsewhere,
    epoch: row.epoch,
  }))
}
