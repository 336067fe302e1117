import type { Rate } from '../../schema/rate.ts'

/**
 * Token buckets in isolate memory: one number a key, the instant at which its bucket would be full again (GCRA).
 * Bounded: keys live in two generations, and when the young one is full the old one is forgotten. A key that is
 * forgotten starts with a full bucket, so only a flood of half of `keysMax` other keys can free one.
 */
export class Buckets {
  readonly #half: number
  #young = new Map<string, number>()
  #old = new Map<string, number>()

  constructor(keysMax: number) {
    this.#half = Math.max(1, keysMax >> 1)
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  /** Exactly how many ms until this key may pass, if nobody takes meanwhile; 0: it may now. Takes nothing. */
  wait(key: string, rate: Rate, nowMs: number): number {
    const fullAtMs = this.#fullAt(key, rate, nowMs)
    if (fullAtMs === undefined) return 0
    return Math.max(0, Math.ceil(fullAtMs - (rate.burst - 1) * rate.intervalMs - nowMs))
  }

  /** Takes one; to be called when `wait` was 0. */
  take(key: string, rate: Rate, nowMs: number): void {
    const fullAtMs = Math.max(this.#fullAt(key, rate, nowMs) ?? nowMs, nowMs)
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, fullAtMs + rate.intervalMs)
  }

  #fullAt(key: string, rate: Rate, nowMs: number): number | undefined {
    const at = this.#young.get(key) ?? this.#old.get(key)
    // Later than an empty bucket's is a clock that stepped back, or a limit that was changed.
    return at === undefined ? undefined : Math.min(at, nowMs + rate.burst * rate.intervalMs)
  }
}
