import { bounds } from '../bounds.ts'
import type { Lifetime } from '../lifetime.ts'
import { describe, type Log } from '../log.ts'

/** The platform's rate-limit binding: counts per location, eventually. */
export interface RateBinding {
  limit(options: { key: string }): Promise<{ success: boolean }>
}

/**
 * Location-wide shedding. It is asked behind the request's back, for one of `every` requests a key, and its word
 * is remembered for a moment: asking each time would cost a claim more than everything else before the arbiter.
 * It only sheds: when it fails, requests pass to the limits that don't.
 */
export class LocationLimit {
  readonly #binding: RateBinding | undefined
  readonly #every: number
  readonly #log: Log
  readonly #counts = new Map<string, number>()
  readonly #overUntil = new Map<string, number>()

  constructor(binding: RateBinding | undefined, every: number, log: Log) {
    this.#binding = binding
    this.#every = every
    this.#log = log
  }

  /** How many ms this key is shed for; 0: it may pass, and was counted. */
  wait(key: string, nowMs: number, clock: () => number, lifetime: Lifetime): number {
    if (this.#binding === undefined) return 0
    const until = this.#overUntil.get(key)
    if (until !== undefined) {
      // A clock that stepped back must not shut a campaign.
      const wait = Math.min(until - nowMs, bounds.locationOverMs)
      if (wait > 0) return wait
      this.#overUntil.delete(key)
    }
    const count = this.#counts.get(key) ?? 0
    if (this.#counts.size >= bounds.locationKeysMax) this.#counts.clear()
    this.#counts.set(key, count + 1)
    if (count % this.#every === 0) lifetime.waitUntil(this.#ask(this.#binding, key, clock))
    return 0
  }

  async #ask(binding: RateBinding, key: string, clock: () => number): Promise<void> {
    try {
      const { success } = await binding.limit({ key })
      if (success) return
      if (this.#overUntil.size >= bounds.locationKeysMax) this.#overUntil.clear()
      this.#overUntil.set(key, clock() + bounds.locationOverMs)
    } catch (error) {
      this.#log('rate_binding_failed', describe(error))
    }
  }
}
