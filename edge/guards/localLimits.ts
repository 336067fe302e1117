import type { Tiers } from '../../schema/address.ts'
import { bounds } from '../bounds.ts'
import { Buckets } from './buckets.ts'
import { type CampaignRates, type LimitTier, limitTiers, type RouteLimits } from './limits.ts'

/** Whom a request comes from, as far as it is known. */
export interface Caller {
  readonly userId: string
  readonly deviceHash: string
  readonly tiers: Tiers | undefined
}

/** One route's limits within this isolate. Every wait is in ms, exact, and 0 when the request may pass. */
export class LocalLimits {
  readonly #rates: RouteLimits
  readonly #buckets: { readonly [tier in LimitTier]: Buckets }

  constructor(rates: RouteLimits) {
    this.#rates = rates
    this.#buckets = Object.fromEntries(
      limitTiers.map((tier) => [tier, new Buckets(bounds.limitKeysMax)]),
    ) as { [tier in LimitTier]: Buckets }
  }

  /** Counts a request that was only received: it protects the isolate itself. */
  platform(nowMs: number): number {
    const wait = this.#wait('platform', '', {}, '', nowMs)
    if (wait === 0) this.#take('platform', '', {}, '', nowMs)
    return wait
  }

  /** Only looks: what a forged claim would take, a genuine one could not have. `admit` takes. */
  campaign(campaignId: string, own: CampaignRates, nowMs: number): number {
    return this.#wait('campaign', campaignId, own, '', nowMs)
  }

  /** The longest wait of all tiers; only a request that passes all of them is counted, by all of them. */
  admit(caller: Caller, campaignId: string, own: CampaignRates, nowMs: number): number {
    const { userId, deviceHash, tiers } = caller
    let wait = Math.max(
      this.#wait('campaign', campaignId, own, '', nowMs),
      this.#wait('user', userId, own, campaignId, nowMs),
      this.#wait('device', deviceHash, own, campaignId, nowMs),
    )
    if (tiers !== undefined) wait = Math.max(wait, this.#waitOfAddress(tiers, own, campaignId, nowMs))
    if (wait > 0) return wait
    this.#take('campaign', campaignId, own, '', nowMs)
    this.#take('user', userId, own, campaignId, nowMs)
    this.#take('device', deviceHash, own, campaignId, nowMs)
    if (tiers !== undefined) this.#takeOfAddress(tiers, own, campaignId, nowMs)
    return 0
  }

  /** By its user alone, and where it comes from: a read has no campaign and no device. */
  read(userId: string, tiers: Tiers | undefined, nowMs: number): number {
    let wait = this.#wait('user', userId, {}, '', nowMs)
    if (tiers !== undefined) wait = Math.max(wait, this.#waitOfAddress(tiers, {}, '', nowMs))
    if (wait > 0) return wait
    this.#take('user', userId, {}, '', nowMs)
    if (tiers !== undefined) this.#takeOfAddress(tiers, {}, '', nowMs)
    return 0
  }

  #waitOfAddress(tiers: Tiers, own: CampaignRates, campaignId: string, nowMs: number): number {
    const { address, network, site } = tiers
    return Math.max(
      this.#wait('address', address, own, campaignId, nowMs),
      this.#wait('network', network, own, campaignId, nowMs),
      site === undefined ? 0 : this.#wait('site', site, own, campaignId, nowMs),
    )
  }

  #takeOfAddress(tiers: Tiers, own: CampaignRates, campaignId: string, nowMs: number): void {
    const { address, network, site } = tiers
    this.#take('address', address, own, campaignId, nowMs)
    this.#take('network', network, own, campaignId, nowMs)
    if (site !== undefined) this.#take('site', site, own, campaignId, nowMs)
  }

  #wait(tier: LimitTier, key: string, own: CampaignRates, campaignId: string, nowMs: number): number {
    const rate = own[tier]
    if (rate === undefined) return this.#buckets[tier].wait(key, this.#rates[tier], nowMs)
    return this.#buckets[tier].wait(ownKey(campaignId, key), rate, nowMs)
  }

  #take(tier: LimitTier, key: string, own: CampaignRates, campaignId: string, nowMs: number): void {
    const rate = own[tier]
    if (rate === undefined) this.#buckets[tier].take(key, this.#rates[tier], nowMs)
    else this.#buckets[tier].take(ownKey(campaignId, key), rate, nowMs)
  }
}

/** A campaign's own limit counts what comes to it alone. No campaign id has a blank. */
export function ownKey(campaignId: string, key: string): string {
  return `${campaignId} ${key}`
}
