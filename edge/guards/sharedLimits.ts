import { Ratelimit } from '@upstash/ratelimit'
import { Redis } from '@upstash/redis/cloudflare'
import type { Rate } from '../../schema/rate.ts'
import { Away } from '../away.ts'
import { bounds } from '../bounds.ts'
import { within } from '../lifetime.ts'
import type { CampaignRates, RouteLimits } from './limits.ts'
import type { Caller } from './localLimits.ts'
import { ownKey } from './tierLimit.ts'

export interface SharedStore {
  readonly url: string
  readonly token: string
}

/**
 * A client for one request: what it sends at the same time goes as one pipeline, and never joins another request's.
 * One attempt, and a deadline that makes it throw: the SDK would otherwise take no answer for one.
 */
export function openStore({ url, token }: SharedStore): Redis {
  return new Redis({
    url,
    token,
    retry: { retries: 0 },
    signal: () => AbortSignal.timeout(bounds.guardStoreTimeoutMs),
    automaticDeserialization: false,
    enableTelemetry: false,
  })
}

/** Its message carries the command, and so the user: only what kind of failure it was may be logged. */
export function storeAway(error: unknown): Away {
  if (error instanceof Away) return error
  return new Away(`guards: Redis: ${error instanceof Error ? error.name : typeof error}`)
}

/**
 * The limits that hold in all isolates and places together, for token issue. Redis being slow or down is no
 * permission: then this throws (CL4, case-K3).
 */
export class SharedLimits {
  readonly #rates: RouteLimits
  /** Keys that Redis refused, until when; asked again without Redis. */
  readonly #refused = new Map<string, number>()

  constructor(rates: RouteLimits) {
    this.#rates = rates
  }

  /** The longest wait in ms, 0 when the request may pass and was counted. @throws Away */
  async admit(redis: Redis, caller: Caller, campaignId: string, own: CampaignRates): Promise<number> {
    if (this.#refused.size > bounds.limitKeysMax) this.#refused.clear()
    const checks = this.#checks(caller).map(([tier, key]) => {
      const rate = own[tier]
      return rate === undefined
        ? this.#check(redis, tier, key, this.#rates[tier])
        : this.#check(redis, tier, ownKey(campaignId, key), rate)
    })
    const answers = await within(
      Promise.all(checks),
      bounds.guardStoreTimeoutMs * 2,
      'guards: the limits are late',
    )
    // Of the limits that let it pass, one may be exhausted now: it also decides when a retry can succeed.
    return answers.some(({ success }) => !success) ? Math.max(...answers.map(waitOf)) : 0
  }

  /** Wider tiers only where one customer may have them whole: an IPv4 /24 is many, and is limited per isolate. */
  #checks({ userId, deviceHash, tiers }: Caller): [SharedTier, string][] {
    const checks: [SharedTier, string][] = [
      ['user', userId],
      ['device', deviceHash],
    ]
    if (tiers !== undefined) checks.push(['address', tiers.address])
    if (tiers?.site !== undefined) checks.push(['network', tiers.network], ['site', tiers.site])
    return checks
  }

  async #check(redis: Redis, tier: string, key: string, rate: Rate): Promise<Answer> {
    const limit = new Ratelimit({
      redis,
      prefix: `tg:limit:${tier}`,
      limiter: Ratelimit.tokenBucket(1, `${Math.ceil(rate.intervalMs)} ms`, rate.burst),
      ephemeralCache: this.#refused,
      // Its own time-out lets the request pass.
      timeout: 0,
    })
    try {
      const { success, remaining, reset, reason } = await limit.limit(encodeURIComponent(key))
      if (reason === 'timeout') throw new Away('guards: the limits are late')
      return { success, remaining, reset }
    } catch (error) {
      throw storeAway(error)
    }
  }
}

type SharedTier = 'user' | 'device' | 'address' | 'network' | 'site'

interface Answer {
  success: boolean
  remaining: number
  reset: number
}

/** The library's clock is the process's own. */
function waitOf({ success, remaining, reset }: Answer): number {
  return success && remaining > 0 ? 0 : Math.max(1, reset - Date.now())
}
