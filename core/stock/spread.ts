import { causeOf } from '../claim/failures.ts'
import { splitExactly } from './split.ts'
import { advanceTransfers, planTransfers, type TransferDeps } from './transfer.ts'

/**
 * Plans to put a campaign's unallocated stock into its buckets, in parts that differ by one at most. Under the
 * stock's lock and only while no other transfer is open, so that no stock is planned for twice.
 */
async function planSpread({ db, clock }: TransferDeps, campaignId: string): Promise<void> {
  await db.admin.transaction(async (tx) => {
    const [stock] = await tx<{ unallocated: number; bucket_count: number; busy: boolean }[]>`
      SELECT s.unallocated, c.bucket_count,
        EXISTS (
          SELECT 1 FROM transfers t
          WHERE t.campaign_id = s.campaign_id AND t.state = 'PLANNED' AND t.from_bucket IS NULL
        ) AS busy
      FROM campaign_stock s JOIN campaigns c USING (campaign_id)
      WHERE s.campaign_id = ${campaignId} FOR UPDATE OF s`
    if (stock === undefined || stock.busy || stock.unallocated === 0) return
    const moves = splitExactly(stock.unallocated, stock.bucket_count).flatMap((amount, to) =>
      amount > 0 ? [{ from: null, to, amount }] : [],
    )
    await planTransfers(tx, campaignId, 'increase', moves, clock())
  })
}

/** Puts it there now, as far as gates answer; the rest waits for the next round of the stock's keeper. */
export async function deliverStock(deps: TransferDeps, campaignId: string): Promise<void> {
  try {
    await planSpread(deps, campaignId)
    await advanceTransfers(deps, campaignId)
  } catch (error) {
    deps.log.warn({ campaign_id: campaignId, cause: causeOf(error) }, 'new stock waits for the next round')
  }
}
