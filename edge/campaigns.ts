import { isCampaignId } from '../schema/campaignId.ts'
import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import type { CampaignSnapshot } from '../schema/view.ts'
import { bounds } from './bounds.ts'
import type { Core } from './core.ts'
import { Kept } from './kept.ts'
import type { Lifetime } from './lifetime.ts'

/** The isolate's knowledge of campaigns: the first tier of CL1. */
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

export function makeCampaigns(core: Core, ids: Keyring, clock: () => number): Campaigns {
  const kept = new Kept<CampaignSnapshot | undefined>({
    load: async (campaignId) => {
      const snapshot = await core.campaign(campaignId)
      return snapshot !== undefined && isPublic(snapshot) ? snapshot : undefined
    },
    ttlMs: (snapshot) => (snapshot === undefined ? limits.viewNegativeTtlMs : limits.viewTtlMs),
    retryMs: limits.viewTtlMs,
    staleMs: bounds.campaignStaleMs,
    what: 'core: campaign',
    timeoutMs: limits.coreTimeoutMs,
    entriesMax: bounds.campaignsKeptMax,
    clock,
  })
  return {
    async find(campaignId, lifetime) {
      return isCampaignId(campaignId, ids) ? kept.get(campaignId, lifetime) : undefined
    },
    known: (campaignId) => kept.known(campaignId),
    refresh: (campaignId, lifetime) => kept.refresh(campaignId, lifetime),
  }
}

/** Never shown before it is approved (schema/view.ts). */
function isPublic(snapshot: CampaignSnapshot): boolean {
  return snapshot.state !== 'DRAFT' && snapshot.state !== 'IN_REVIEW'
}
