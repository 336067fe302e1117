import { snapshot as gateSnapshot } from '../../lua/stock.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'
import { ballotHint } from '../ballot/record.ts'
import type { Deps } from '../deps.ts'
import { findCampaign, type RuledCampaign } from './read.ts'

/** How long one reading serves all that ask: the edge's isolates may all ask at once. */
const ttlMs = 200
const entriesMax = 1_000
/** Gates asked at a time until one with stock is found. */
const gatesAtOnce = 16

interface Entry {
  readAtMs: number
  value: Promise<CampaignSnapshot | undefined>
}

export interface Snapshots {
  /** Undefined: no such campaign, or none that the public may know of yet. */
  get(campaignId: string): Promise<CampaignSnapshot | undefined>
}

type SnapshotDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

/** What the edge is told of campaigns: one read a campaign and 200 ms, however many ask. */
export function makeSnapshots(deps: SnapshotDeps): Snapshots {
  const entries = new Map<string, Entry>()
  /** Where stock was seen last: most often it is still there. */
  const hints = new Map<string, number>()

  async function read(campaignId: string): Promise<CampaignSnapshot | undefined> {
    const found = await findCampaign(deps.db.query.orm, campaignId)
    if (found === undefined || !isPublic(found)) return undefined
    const { campaign } = found
    let soldOut = false
    // A ballot's entries take no stock: it is never sold out.
    if (campaign.delivery === 'direct') soldOut = await isSpent(deps, campaignId)
    else if (campaign.state === 'ACTIVE' && campaign.mode !== 'ballot') {
      const stocked = await findStock(deps, campaignId, campaign.bucketCount, hints.get(campaignId) ?? 0)
      soldOut = stocked === undefined
      if (stocked !== undefined) hints.set(campaignId, stocked)
    }
    const ballot = campaign.mode === 'ballot' ? await ballotHint(deps.db.query, campaignId) : undefined
    return { ...snapshotOf(found, soldOut), ...(ballot === undefined ? {} : { ballot }) }
  }

  return {
    get(campaignId) {
      const nowMs = deps.clock()
      const known = entries.get(campaignId)
      if (known !== undefined && nowMs - known.readAtMs < ttlMs && nowMs >= known.readAtMs) return known.value
      if (entries.size >= entriesMax) {
        entries.clear()
        hints.clear()
      }
      const value = read(campaignId)
      entries.set(campaignId, { readAtMs: nowMs, value })
      value.catch(() => {
        // A failure is told to those who waited for it, and to nobody after them.
        if (entries.get(campaignId)?.value === value) entries.delete(campaignId)
      })
      return value
    },
  }
}

/** Whether a direct campaign has no coupon left; what is not published yet has all of them. */
async function isSpent({ db }: SnapshotDeps, campaignId: string): Promise<boolean> {
  const [stock] = await db.query.sql<{ unallocated: number }[]>`
    SELECT unallocated FROM campaign_stock WHERE campaign_id = ${campaignId}`
  return stock?.unallocated === 0
}

/** Never before it was approved, also when it was voided before. */
function isPublic({ campaign }: RuledCampaign): boolean {
  return campaign.approvedBy !== null
}

/**
 * A bucket with stock, or undefined when all gates say that they are empty. A gate that is missing or can't be
 * asked counts as stocked: the view must not shut a campaign that the arbiter would serve.
 */
async function findStock(
  { runner, log }: SnapshotDeps,
  campaignId: string,
  bucketCount: number,
  first: number,
): Promise<number | undefined> {
  const isStocked = async (bucket: number) => {
    try {
      const gate = await gateSnapshot(runner, { campaignId, bucket })
      return gate === undefined || gate.remaining > 0
    } catch (error) {
      log.warn({ err: error, campaign_id: campaignId, bucket }, 'a gate could not be asked for its stock')
      return true
    }
  }
  if (await isStocked(first)) return first
  for (let from = 0; from < bucketCount; from += gatesAtOnce) {
    const group = Array.from({ length: Math.min(gatesAtOnce, bucketCount - from) }, (_, i) => from + i)
    const stocked = await Promise.all(group.map(isStocked))
    const found = stocked.indexOf(true)
    if (found >= 0) return from + found
  }
  return undefined
}

function snapshotOf({ campaign, rules }: RuledCampaign, soldOut: boolean): CampaignSnapshot {
  return {
    id: campaign.campaignId,
    name: campaign.name,
    mode: campaign.mode,
    state: campaign.state,
    config_version: campaign.configVersion,
    starts_at_ms: campaign.startsAt.getTime(),
    ends_at_ms: campaign.endsAt.getTime(),
    per_user_limit: campaign.perUserLimit,
    bucket_count: campaign.bucketCount,
    ...(campaign.delivery === 'direct' ? { delivery: 'direct' as const } : {}),
    benefit: rules.benefit,
    validity: rules.validity,
    time_zone: campaign.timeZone,
    sold_out: soldOut,
    ...(rules.guards === undefined ? {} : { guards: rules.guards }),
  }
}
