import type { Redis } from '@upstash/redis/cloudflare'
import type { ClaimTerms } from '../../schema/tokens.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'
import type { Lifetime } from '../lifetime.ts'
import { isAddressBlocked, isCallerBlocked } from './blocks.ts'
import { type CampaignGuards, guardsOf } from './campaignGuards.ts'
import { addressHeader, type DoorParts, enter, type Visit } from './door.ts'
import type { Caller, LocalLimits } from './localLimits.ts'
import type { LocationLimit } from './location.ts'
import { notEligible, type Refused, rateLimited } from './refused.ts'
import { outcomeOf, type RiskOutcome } from './risk.ts'
import { outsideOf } from './rollout.ts'
import type { SharedLimits } from './sharedLimits.ts'
import { type Turnstile, turnstileAction } from './turnstile.ts'

export interface IssueGuardParts {
  readonly door: DoorParts
  readonly limits: LocalLimits
  readonly shared: SharedLimits
  readonly location: LocationLimit
  readonly turnstile: Turnstile
  /** A client of the limits' Redis for one request. */
  openStore(): Redis
}

/** A user who asks for a claim token, after the login was checked. */
export interface Applicant {
  readonly visit: Visit
  readonly snapshot: CampaignSnapshot
  readonly request: Request
  readonly userId: string
  readonly deviceHash: string
}

/** How a claim under the token is to be treated. */
export interface Admitted {
  readonly terms: ClaimTerms
}

/**
 * Guards the issue of claim tokens: all that is too dear for a claim is done here, cheapest first. Whatever can't
 * be checked is not passed: a store or verifier that is away ends in Away (case-K3).
 */
export class IssueGuard {
  readonly #parts: IssueGuardParts

  constructor(parts: IssueGuardParts) {
    this.#parts = parts
  }

  enter(request: Request, lifetime: Lifetime): Visit | Refused {
    return enter(this.#parts.door, this.#parts.limits, request, lifetime)
  }

  /** @throws Away */
  async admit(applicant: Applicant, lifetime: Lifetime): Promise<Admitted | Refused> {
    const guards = guardsOf(applicant.snapshot)
    const refused =
      this.#blocked(applicant, guards) ??
      this.#overLocal(applicant, guards, lifetime) ??
      ineligible(applicant, guards)
    if (refused !== undefined) return refused
    const response = applicant.request.headers.get('Turnstile-Response')
    const mustSolve = guards.rules.turnstile === true
    if (mustSolve && response === null) return this.#challenge()

    const redis = this.#parts.openStore()
    const { snapshot } = applicant
    const wait = await this.#parts.shared.admit(redis, callerOf(applicant), snapshot.id, guards.tokenRates)
    if (wait > 0) return rateLimited(wait)
    const outcome = await riskOf(applicant, guards, redis)
    if (outcome === 'deny') return notEligible('DECLINED')
    if (mustSolve || outcome === 'challenge') {
      const address = applicant.request.headers.get(addressHeader)
      const solved = response !== null && (await this.#parts.turnstile.verify(response, address))
      if (!solved) return this.#challenge()
    }
    return { terms: outcome === 'review' ? 'held' : 'stream' }
  }

  #blocked({ visit, userId, deviceHash }: Applicant, { blocked }: CampaignGuards): Refused | undefined {
    const platform = this.#parts.door.blocked
    const isBlocked =
      isAddressBlocked(blocked, visit.address) ||
      isCallerBlocked(platform, userId, deviceHash) ||
      isCallerBlocked(blocked, userId, deviceHash)
    return isBlocked ? notEligible('DECLINED') : undefined
  }

  #overLocal(applicant: Applicant, guards: CampaignGuards, lifetime: Lifetime): Refused | undefined {
    const { limits, location, door } = this.#parts
    const { id } = applicant.snapshot
    // Not the request's first instant: here and in Redis a limit must count from the same one.
    const nowMs = door.clock()
    const wait =
      location.wait(id, nowMs, door.clock, lifetime) ||
      limits.admit(callerOf(applicant), id, guards.tokenRates, nowMs)
    return wait > 0 ? rateLimited(wait) : undefined
  }

  #challenge(): Refused {
    const { siteKey } = this.#parts.turnstile
    const extras = { action: turnstileAction, ...(siteKey === undefined ? {} : { site_key: siteKey }) }
    return { code: 'CHALLENGE_REQUIRED', extras }
  }
}

function callerOf({ userId, deviceHash, visit }: Applicant): Caller {
  return { userId, deviceHash, tiers: visit.tiers }
}

function ineligible(applicant: Applicant, guards: CampaignGuards): Refused | undefined {
  const { request, userId, snapshot } = applicant
  const { headers } = request
  if (guards.audience !== undefined && !guards.audience.has(userId)) return notEligible('AUDIENCE')
  const { rollout } = guards.rules
  if (rollout === undefined) return undefined
  const outside = outsideOf(rollout, {
    userId,
    campaignId: snapshot.id,
    region: (request.cf as { country?: string } | undefined)?.country,
    channel: headers.get('Client-Channel') ?? undefined,
    clientVersion: headers.get('Client-Version') ?? undefined,
  })
  return outside && notEligible(outside)
}

async function riskOf(applicant: Applicant, guards: CampaignGuards, redis: Redis): Promise<RiskOutcome> {
  const { scorer, rules } = guards
  if (scorer === undefined || rules.risk === undefined) return 'allow'
  const { nowMs, address } = applicant.visit
  const caller = callerOf(applicant)
  const score = await scorer.score({ campaignId: applicant.snapshot.id, caller, address, nowMs }, redis)
  return outcomeOf(rules.risk, score)
}
