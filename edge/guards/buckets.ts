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

  /**
   * Looks and takes nothing: when this key's bucket would be full again, never before now. `waitAt` tells from it
   * how long the key has to wait, `put` takes: one look serves both.
   */
  look(key: string, rate: Rate, nowMs: number): number {
    const at = this.#young.get(key) ?? this.#old.get(key)
    // Later than an empty bucket's is a clock that stepped back, or a limit that was changed.
    return at === undefined ? nowMs : Math.max(nowMs, Math.min(at, nowMs + rate.burst * rate.intervalMs))
  }

  /** Takes one of a bucket that was looked at just now and has something. */
  put(key: string, fullAtMs: number, rate: Rate): void {
    if (this.#young.size >= this.#half && !this.#young.has(key)) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, fullAtMs + rate.intervalMs)
  }
}

/** Exactly how many ms until a bucket that is full at this instant has one, if nobody takes meanwhile; 0: now. */
export function waitAt(fullAtMs: number, rate: Rate, nowMs: number): number {
  return Math.max(0, Math.ceil(fullAtMs - (rate.burst - 1) * rate.intervalMs - nowMs))
}
