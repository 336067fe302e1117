import type { Bucket } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { missingOf, readBalance } from './balance.ts'
import { readBucketLedger } from './ledger.ts'
import { numbersOf, type RebuildDeps, type RebuildOutcome, rebuildBucket } from './rebuild.ts'

/** What a rebuild would do to a bucket, beside what Redis has now. */
export interface BucketPlan {
  bucket: number
  /** Null: Redis has no gate. */
  redis: { allocated: number; remaining: number; accepted: number; returned: number; entries: number } | null
  ledger: { allocated: number; remaining: number; accepted: number; returned: number; users: number }
  /** Coupons that the ledger holds beyond what the bucket was given. */
  written_off: number
}

export interface RebuildPlan {
  campaign_id: string
  /** Of the quota, what the ledger can't account for: 0 or only an operator's word rebuilds. */
  missing: number
  buckets: BucketPlan[]
}

/** Looks only. Claims still in a log are not in the ledger's numbers yet. @throws Refused CAMPAIGN_NOT_FOUND */
export async function planRebuild(
  deps: Pick<Deps, 'db' | 'runner'>,
  campaignId: string,
): Promise<RebuildPlan> {
  return deps.db.admin.transaction(async (tx) => {
    await tx`SELECT set_config('statement_timeout', '60000', true)`
    const balance = await readBalance(tx, campaignId)
    if (balance === undefined) throw new Refused('CAMPAIGN_NOT_FOUND')
    const rows = await tx<{ bucket: number; allocated: number; epoch: number; mode: string }[]>`
      SELECT b.bucket, b.allocated, b.epoch, c.mode FROM buckets b JOIN campaigns c USING (campaign_id)
      WHERE b.campaign_id = ${campaignId} ORDER BY b.bucket`
    const buckets: BucketPlan[] = []
    for (const row of rows) {
      const at = { campaignId, bucket: row.bucket }
      const gate = await snapshot(deps.runner, at)
      const ledger = await readBucketLedger(tx, at, row.mode === 'ballot')
      const { allocated, remaining, accepted, returned, users, written_off } = numbersOf(
        row,
        ledger,
        row.epoch,
      )
      buckets.push({
        bucket: row.bucket,
        redis:
          gate === undefined
            ? null
            : {
                allocated: gate.allocated,
                remaining: gate.remaining,
                accepted: gate.accepted,
                returned: gate.returned,
                entries: gate.entries,
              },
        ledger: { allocated, remaining, accepted, returned, users },
        written_off,
      })
    }
    return { campaign_id: campaignId, missing: missingOf(balance), buckets }
  })
}

/** One bucket after the other; a bucket that can't be rebuilt now does not keep the others. */
export async function rebuildCampaign(
  deps: RebuildDeps,
  campaignId: string,
  by: { actor: string; role: string; reason: string; force: boolean },
): Promise<({ bucket: number } & RebuildOutcome)[]> {
  const rows = await deps.db.admin.sql<{ bucket: number }[]>`
    SELECT bucket FROM buckets WHERE campaign_id = ${campaignId} ORDER BY bucket`
  if (rows.length === 0) throw new Refused('CONFLICT', { detail: 'It was never published: it has no stock.' })
  const done: ({ bucket: number } & RebuildOutcome)[] = []
  for (const { bucket } of rows) {
    const at: Bucket = { campaignId, bucket }
    const { actor, role, reason: cause, force } = by
    done.push({ bucket, ...(await rebuildBucket(deps, { bucket: at, cause, actor, role, force })) })
  }
  return done
}
