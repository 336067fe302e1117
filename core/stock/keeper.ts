import { limits } from '../../schema/limits.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import { causeOf } from '../claim/failures.ts'
import { makeAlarm, within } from '../claim/patience.ts'
import type { Deps, Running } from '../deps.ts'
import { collectEnded } from './collect.ts'
import { readGates } from './readGates.ts'
import { type BucketStock, type Move, planMoves } from './tail.ts'
import { advanceTransfers, planTransfers, resumeTransfers } from './transfer.ts'

export type KeeperDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

/** Keeps stock where people are: finishes transfers, moves stock to empty buckets, takes back what is left. */
export interface StockKeeper extends Running {
  /** Has it look now. */
  nudge(): void
}

const stopMs = 5_000

export function startStockKeeper(given: KeeperDeps): StockKeeper {
  const deps = { ...given, log: given.log.child({ part: 'stock' }) }
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  const rebalancer = makeRebalancer(deps)

  async function run(): Promise<void> {
    while (!abort.signal.aborted) {
      let moving = false
      try {
        await resumeTransfers(deps)
        moving = await rebalancer.round()
        await collectEnded(deps)
      } catch (error) {
        deps.log.warn({ cause: causeOf(error) }, 'stock could not be looked over; the next round tries again')
      }
      await alarm.wait(moving ? limits.stockMovingEveryMs : limits.stockLookEveryMs)
    }
  }

  const running = run()
  return {
    nudge: alarm.wake,
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the stock’s keeper').catch((error) =>
        deps.log.warn({ cause: causeOf(error) }, 'the stock’s keeper did not end in order'),
      )
    },
  }
}

interface Tended {
  campaign_id: string
  tail_policy: TailPolicy
  quota: number
  unallocated: number
  bucket_count: number
}

/** What is remembered of a campaign between rounds. */
interface Memory {
  /** Acceptances of all its buckets when stock was moved last. */
  accepted: number
  /** By the clock; not before this again. */
  dueAtMs: number
  waitMs: number
}

export interface Rebalancer {
  /** Looks once at every open campaign. @returns whether any stock was moved. */
  round(): Promise<boolean>
}

export function makeRebalancer(deps: KeeperDeps): Rebalancer {
  const memories = new Map<string, Memory>()

  async function tend(campaign: Tended): Promise<boolean> {
    const nowMs = deps.clock()
    const memory = memories.get(campaign.campaign_id)
    if (memory !== undefined && nowMs < memory.dueAtMs && campaign.unallocated === 0) return false
    const buckets = await readStock(deps, campaign)
    if (buckets === undefined) return false
    const accepted = buckets.reduce((sum, bucket) => sum + bucket.accepted, 0)
    const moves = planMoves({
      policy: campaign.tail_policy,
      quota: campaign.quota,
      unallocated: campaign.unallocated,
      buckets,
      // A gate without a lease may be behind the ledger: what it says it has could be sold already.
    }).filter(({ from }) => from === null || buckets[from]!.leased)
    if (moves.length === 0) return false
    memories.set(campaign.campaign_id, remember(memory, accepted, nowMs))
    await planUnlessBusy(deps, campaign, moves)
    return (await advanceTransfers(deps, campaign.campaign_id)) > 0
  }

  return {
    async round() {
      const campaigns = await findTended(deps)
      const known = new Set(campaigns.map(({ campaign_id }) => campaign_id))
      for (const id of memories.keys()) if (!known.has(id)) memories.delete(id)
      let moved = false
      for (const campaign of campaigns) {
        try {
          if (await tend(campaign)) moved = true
        } catch (error) {
          const { campaign_id } = campaign
          deps.log.warn({ campaign_id, cause: causeOf(error) }, 'stock stays where it is for now')
        }
      }
      return moved
    },
  }
}

/** Stock that was moved and did not sell is not moved again so soon: it would wander between empty buckets. */
function remember(before: Memory | undefined, accepted: number, nowMs: number): Memory {
  const sold = before === undefined || accepted > before.accepted
  const waitMs = sold ? limits.stockMovingEveryMs : Math.min(limits.stockIdleEveryMaxMs, before.waitMs * 2)
  return { accepted, waitMs, dueAtMs: nowMs + waitMs }
}

async function findTended({ db, clock }: KeeperDeps): Promise<Tended[]> {
  const now = new Date(clock())
  return db.admin.sql<Tended[]>`
    SELECT c.campaign_id, c.tail_policy, c.quota, c.bucket_count, s.unallocated
    FROM campaigns c JOIN campaign_stock s USING (campaign_id)
    WHERE c.state IN ('ACTIVE', 'PAUSED') AND c.mode <> 'ballot' AND c.delivery = 'stream' AND c.ends_at > ${now}
      AND ((c.state = 'ACTIVE' AND c.bucket_count > 1 AND c.tail_policy <> 'accept' AND c.starts_at <= ${now})
        OR s.unallocated > 0)
    ORDER BY c.campaign_id`
}

/** Undefined: a gate could not be read, so that nothing can be said about where stock is missing. */
async function readStock(
  deps: KeeperDeps,
  campaign: Tended,
): Promise<(BucketStock & { leased: boolean })[] | undefined> {
  const gates = await readGates(deps.runner, campaign.campaign_id, campaign.bucket_count)
  if (!gates.every((gate) => gate !== undefined)) return undefined
  return gates.map(({ remaining, accepted, leaseUntilMs, nowMs }, bucket) => ({
    bucket,
    remaining,
    accepted,
    leased: leaseUntilMs > nowMs,
  }))
}

/** Of two processes that planned at once, one does. */
async function planUnlessBusy({ db, clock }: KeeperDeps, campaign: Tended, moves: Move[]): Promise<void> {
  const { campaign_id: campaignId, tail_policy: policy } = campaign
  await db.admin.transaction(async (tx) => {
    await tx`SELECT 1 FROM campaign_stock WHERE campaign_id = ${campaignId} FOR UPDATE`
    const [open] = await tx`
      SELECT 1 FROM transfers WHERE campaign_id = ${campaignId} AND state <> 'DEPOSITED' LIMIT 1`
    if (open !== undefined) return
    const reason = policy === 'accept' ? 'spread' : policy
    await planTransfers(tx, campaignId, reason, moves, clock())
  })
}
