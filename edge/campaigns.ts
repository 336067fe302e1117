import { isCampaignId } from '../schema/campaignId.ts'
import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import type { CampaignSnapshot } from '../schema/view.ts'
import { bounds } from './bounds.ts'
import type { Core } from './core.ts'
import { Kept } from './kept.ts'
import type { Lifetime } from './lifetime.ts'
import type { LocationCache } from './locationCache.ts'

/**
 * What the gate knows of campaigns (CL1): isolate memory, then the location's cache, then the core. A change is seen
 * everywhere within `viewTtlMs` of when the core tells it, for what is found in the cache counts from when it was
 * asked for. Campaigns that many ask for are asked for ahead (CL20).
 */
export interface Campaigns {
  /**
   * Undefined: there is no such campaign; one that we never made costs no request to anybody.
   * @throws Away when the core is away and the campaign was not seen recently.
   */
  find(campaignId: string, lifetime: Lifetime): Promise<CampaignSnapshot | undefined>
  /** What this isolate has seen of it last, without asking anybody. */
  known(campaignId: string): CampaignSnapshot | undefined
  /** Has a campaign, known to be genuine, looked at again when that is due; nobody waits for it. */
  refresh(campaignId: string, lifetime: Lifetime): void
}

/** What the core said, and when it was asked. */
interface Told {
  readonly snapshot: CampaignSnapshot | undefined
  readonly askedAtMs: number
}

export function makeCampaigns(
  core: Core,
  cache: LocationCache,
  ids: Keyring,
  clock: () => number,
): Campaigns {
  async function ask(campaignId: string): Promise<Told> {
    const askedAtMs = clock()
    const snapshot = await core.campaign(campaignId)
    const told = { askedAtMs, snapshot: snapshot !== undefined && isPublic(snapshot) ? snapshot : undefined }
    await cache.put(nameOf(campaignId), JSON.stringify(told), ttlOf(told))
    return told
  }

  const kept = new Kept<Told>({
    load: async (campaignId) => {
      const shared = await cache.get(nameOf(campaignId))
      const told = shared === undefined ? undefined : ((await shared.json()) as Told)
      const nowMs = clock()
      const fresh = told !== undefined && told.askedAtMs <= nowMs && nowMs < told.askedAtMs + aheadOf(told)
      return fresh ? told : ask(campaignId)
    },
    ttlMs: (told) => Math.max(0, told.askedAtMs + ttlOf(told) - clock()),
    retryMs: limits.viewTtlMs,
    staleMs: bounds.campaignStaleMs,
    what: 'core: campaign',
    timeoutMs: limits.coreTimeoutMs + bounds.cacheTimeoutMs,
    entriesMax: bounds.campaignsKeptMax,
    hot: { gets: bounds.hotCampaignGets, ahead: hotAhead },
    clock,
  })
  return {
    async find(campaignId, lifetime) {
      return isCampaignId(campaignId, ids) ? (await kept.get(campaignId, lifetime)).snapshot : undefined
    },
    known: (campaignId) => kept.known(campaignId)?.snapshot,
    refresh: (campaignId, lifetime) => kept.refresh(campaignId, lifetime),
  }
}

const hotAhead = 0.7
const nameOf = (campaignId: string) => `campaigns/${campaignId}`

function ttlOf({ snapshot }: Told): number {
  return snapshot === undefined ? limits.viewNegativeTtlMs : limits.viewTtlMs
}

/** Who asks ahead wants something newer than what he has; all isolates of a location ask ahead at about one time. */
function aheadOf(told: Told): number {
  return ttlOf(told) * hotAhead
}

/** Never shown before it is approved (schema/view.ts). */
function isPublic(snapshot: CampaignSnapshot): boolean {
  return snapshot.state !== 'DRAFT' && snapshot.state !== 'IN_REVIEW'
}
