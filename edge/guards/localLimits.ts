import type { Tiers } from '../../schema/address.ts'
import type { CampaignRates, RouteLimits } from './limits.ts'
import { TierLimit } from './tierLimit.ts'

/** Whom a request comes from, as far as it is known. */
export interface Caller {
  readonly userId: string
  readonly deviceHash: string
  readonly tiers: Tiers | undefined
}

const noRates: CampaignRates = {}

/** One route's limits within this isolate. Every wait is in ms, exact, and 0 when the request may pass. */
export class LocalLimits {
  readonly #platform: TierLimit
  readonly #campaign: TierLimit
  readonly #user: TierLimit
  readonly #device: TierLimit
  readonly #address: TierLimit
  readonly #network: TierLimit
  readonly #site: TierLimit

  constructor(rates: RouteLimits) {
    this.#platform = new TierLimit(rates.platform)
    this.#campaign = new TierLimit(rates.campaign)
    this.#user = new TierLimit(rates.user)
    this.#device = new TierLimit(rates.device)
    this.#address = new TierLimit(rates.address)
    this.#network = new TierLimit(rates.network)
    this.#site = new TierLimit(rates.site)
  }

  /** Counts a request that was only received: it protects the isolate itself. */
  platform(nowMs: number): number {
    const wait = this.#platform.look('', undefined, '', nowMs)
    if (wait === 0) this.#platform.take()
    return wait
  }

  /** Only looks: what a forged claim would take, a genuine one could not have. `admit` takes. */
  campaign(campaignId: string, own: CampaignRates, nowMs: number): number {
    return this.#campaign.look(campaignId, own.campaign, '', nowMs)
  }

  /** The longest wait of all tiers; only a request that passes all of them is counted, by all of them. */
  admit(caller: Caller, campaignId: string, own: CampaignRates, nowMs: number): number {
    const { userId, deviceHash, tiers } = caller
    const wait = Math.max(
      this.#campaign.look(campaignId, own.campaign, '', nowMs),
      this.#user.look(userId, own.user, campaignId, nowMs),
      this.#device.look(deviceHash, own.device, campaignId, nowMs),
      tiers === undefined ? 0 : this.#lookAtAddress(tiers, own, campaignId, nowMs),
    )
    if (wait > 0) return wait
    this.#campaign.take()
    this.#user.take()
    this.#device.take()
    if (tiers !== undefined) this.#takeOfAddress(tiers)
    return 0
  }

  /** By its user alone, and where it comes from: a read has no campaign and no device. */
  read(userId: string, tiers: Tiers | undefined, nowMs: number): number {
    const wait = Math.max(
      this.#user.look(userId, undefined, '', nowMs),
      tiers === undefined ? 0 : this.#lookAtAddress(tiers, noRates, '', nowMs),
    )
    if (wait > 0) return wait
    this.#user.take()
    if (tiers !== undefined) this.#takeOfAddress(tiers)
    return 0
  }

  #lookAtAddress(tiers: Tiers, own: CampaignRates, campaignId: string, nowMs: number): number {
    const { address, network, site } = tiers
    return Math.max(
      this.#address.look(address, own.address, campaignId, nowMs),
      this.#network.look(network, own.network, campaignId, nowMs),
      site === undefined ? 0 : this.#site.look(site, own.site, campaignId, nowMs),
    )
  }

  #takeOfAddress({ site }: Tiers): void {
    this.#address.take()
    this.#network.take()
    if (site !== undefined) this.#site.take()
  }
}
