import type { ClaimToken } from '../../schema/tokens.ts'
import type { Campaigns } from '../campaigns.ts'
import type { Lifetime } from '../lifetime.ts'
import { isAddressBlocked, isCallerBlocked } from './blocks.ts'
import { type CampaignGuards, guardsOf, noGuards } from './campaignGuards.ts'
import { type DoorParts, enter, isRefused, type Visit } from './door.ts'
import type { LocalLimits } from './localLimits.ts'
import type { LocationLimit } from './location.ts'
import { notEligible, type Refused, rateLimited } from './refused.ts'

export interface ClaimGuardParts {
  readonly door: DoorParts
  readonly limits: LocalLimits
  readonly location: LocationLimit
  readonly campaigns: Campaigns
}

export interface ClaimVisit extends Visit {
  readonly guards: CampaignGuards
}

/**
 * Guards a claim without asking anybody: all it needs is in isolate memory. A campaign that this isolate has not
 * seen yet is guarded by the platform's limits; its own follow within a moment of its first genuine claim.
 */
export class ClaimGuard {
  readonly #parts: ClaimGuardParts

  constructor(parts: ClaimGuardParts) {
    this.#parts = parts
  }

  /** Before the token is looked at. @throws Away when the campaign's rules are not understood. */
  enter(request: Request, campaignId: string, lifetime: Lifetime): ClaimVisit | Refused {
    const { door, limits, campaigns } = this.#parts
    const visit = enter(door, limits, request, lifetime)
    if (isRefused(visit)) return visit
    const snapshot = campaigns.known(campaignId)
    const guards = snapshot === undefined ? noGuards : guardsOf(snapshot)
    if (isAddressBlocked(guards.blocked, visit.address)) return notEligible('DECLINED')
    const wait = limits.campaign(campaignId, guards.claimRates, visit.nowMs)
    if (wait > 0) return rateLimited(wait)
    const { nowMs, address, tiers } = visit
    return { nowMs, address, tiers, guards }
  }

  /** Once the token is known to be genuine; only now the claim is counted for its campaign. */
  admit(visit: ClaimVisit, token: ClaimToken, lifetime: Lifetime): Refused | undefined {
    const { door, limits, location, campaigns } = this.#parts
    const { campaignId, userId, deviceHash } = token
    const { nowMs, guards } = visit
    campaigns.refresh(campaignId, lifetime)
    if (isCallerBlocked(door.blocked, userId, deviceHash)) return notEligible('DECLINED')
    if (isCallerBlocked(guards.blocked, userId, deviceHash)) return notEligible('DECLINED')
    const caller = { userId, deviceHash, tiers: visit.tiers }
    const wait =
      location.wait(campaignId, nowMs, door.clock, lifetime) ||
      limits.admit(caller, campaignId, guards.claimRates, nowMs)
    return wait > 0 ? rateLimited(wait) : undefined
  }
}
