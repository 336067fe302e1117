import type { BucketSnapshot } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { causeOf } from '../claim/failures.ts'
import type { Deps } from '../deps.ts'
import { readGates } from './readGates.ts'
import { advanceTransfers, planTransfers } from './transfer.ts'

/**
 * Takes back what the buckets of campaigns that are over have left, whatever their tail policy. It stays due until
 * every gate is empty and nothing more can come back to one: no log entry, no compensation.
 */

type CollectDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

/** Claims are decided by the gates' own clocks: by then none of them is open any more. */
const overAfterMs = limits.clockLeewayMs
/** Campaigns of one round, oldest look first by id; the rest come in the next. */
const roundMax = 20

interface Over {
  campaign_id: string
  updated_at: Date
  ends_at: Date
  bucket_count: number
  waiting: boolean
}

/** One round. @returns how many campaigns were finished with. */
export async function collectEnded(deps: CollectDeps): Promise<number> {
  let finished = 0
  for (const campaign of await findOver(deps)) {
    try {
      if (await collect(deps, campaign)) finished++
    } catch (error) {
      const { campaign_id } = campaign
      deps.log.warn({ campaign_id, cause: causeOf(error) }, 'what is left stays in its buckets for now')
    }
  }
  return finished
}

async function findOver({ db, clock }: CollectDeps): Promise<Over[]> {
  const over = new Date(clock() - overAfterMs)
  return db.admin.sql<Over[]>`
    SELECT c.campaign_id, c.updated_at, c.ends_at, c.bucket_count,
      EXISTS (
        SELECT 1 FROM compensations k
        WHERE k.campaign_id = c.campaign_id AND k.state IN ('PENDING', 'UNKNOWN', 'APPLIED')
      ) AS waiting
    FROM campaigns c JOIN campaign_stock s USING (campaign_id)
    WHERE c.mode <> 'ballot' AND c.delivery = 'stream' AND (c.stock_collected_at IS NULL OR c.stock_collected_at < c.updated_at)
      AND (c.state IN ('ENDED', 'VOIDED') OR (c.state IN ('ACTIVE', 'PAUSED') AND c.ends_at < ${over}))
    ORDER BY random() LIMIT ${roundMax}`
}

async function collect(deps: CollectDeps, campaign: Over): Promise<boolean> {
  const { campaign_id: campaignId } = campaign
  const nowMs = deps.clock()
  const gates = await readGates(deps.runner, campaignId, campaign.bucket_count)
  const moves = gates.flatMap((gate, from) =>
    gate !== undefined && gate.remaining > 0 && isClosed(gate, campaign)
      ? [{ from, to: null, amount: gate.remaining }]
      : [],
  )
  if (moves.length > 0) {
    await deps.db.admin.transaction((tx) => planTransfers(tx, campaignId, 'collect', moves, nowMs))
    await advanceTransfers(deps, campaignId)
    return false
  }
  const atRest = gates.every((gate) => gate !== undefined && gate.remaining === 0 && gate.entries === 0)
  if (!atRest || campaign.waiting) return false
  // Not the moment of looking: a change of the campaign that came since must make it due again.
  await deps.db.admin.sql`
    UPDATE campaigns SET stock_collected_at = greatest(${new Date(nowMs)}, updated_at)
    WHERE campaign_id = ${campaignId} AND updated_at = ${campaign.updated_at}`
  return true
}

/** A gate that was not told yet would say SOLD_OUT to people whom it should tell that it is over. */
function isClosed({ state, nowMs }: BucketSnapshot, { ends_at }: Over): boolean {
  return state === 'ENDED' || state === 'VOIDED' || nowMs >= ends_at.getTime()
}
