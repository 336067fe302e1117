import type { Rate } from '../../schema/rate.ts'
import { bounds } from '../bounds.ts'
import { Buckets, waitAt } from './buckets.ts'

/**
 * One tier's limit of one route. A request is looked at by all of its tiers first, and counted by them only if all
 * let it pass; what the look found is kept for that, since nothing else of the isolate runs in between.
 */
export class TierLimit {
  readonly #rate: Rate
  readonly #buckets = new Buckets(bounds.limitKeysMax)
  #key = 0
  #fullAtMs = 0
  #lookedRate: Rate

  constructor(rate: Rate) {
    this.#rate = rate
    this.#lookedRate = rate
  }

  /**
   * How many ms this key has to wait, 0: not at all. Takes nothing.
   * @param own the campaign's own rate, if it has one: it counts what comes to this campaign alone.
   */
  look(key: string, own: Rate | undefined, campaignId: string, nowMs: number): number {
    const rate = own ?? this.#rate
    this.#key = this.#buckets.keyOf(own === undefined ? key : ownKey(campaignId, key))
    this.#lookedRate = rate
    this.#fullAtMs = this.#buckets.look(this.#key, rate, nowMs)
    return waitAt(this.#fullAtMs, rate, nowMs)
  }

  /** Counts the request that was looked at last. */
  take(): void {
    this.#buckets.put(this.#key, this.#fullAtMs, this.#lookedRate)
  }
}

/** A campaign's own limit counts what comes to it alone. No campaign id has a blank. */
export function ownKey(campaignId: string, key: string): string {
  return `${campaignId} ${key}`
}
