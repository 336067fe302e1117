import { hash53 } from '../../schema/hash.ts'
import type { Rate } from '../../schema/rate.ts'
import { Instants } from './instants.ts'

/**
 * Token buckets in isolate memory: one number a key, the instant at which its bucket would be full again (GCRA).
 * Bounded: keys live in two generations, and when the young one is full the old one is forgotten. A key that is
 * forgotten starts with a full bucket, so only a flood of half of `keysMax` other keys can free one.
 */
export class Buckets {
  readonly #half: number
  readonly #seed: number
  #young = new Instants()
  #old = new Instants()

  constructor(keysMax: number) {
    this.#half = Math.max(1, keysMax >> 1)
    this.#seed = crypto.getRandomValues(new Int32Array(1))[0]!
  }

  /** Keys that are remembered. */
  get size(): number {
    return this.#young.size + this.#old.size
  }

  /**
   * By what a text is known here: 53 bits of a hash that is another one in each isolate, so nobody can look for a text
   * that takes from another's bucket.
   */
  keyOf(text: string): number {
    return hash53(text, this.#seed) || 1
  }

  /**
   * Looks and takes nothing: when this key's bucket would be full again, never before now. `waitAt` tells from it
   * how long the key has to wait, `put` takes: one look serves both.
   */
  look(key: number, rate: Rate, nowMs: number): number {
    // Later than an empty bucket's is a clock that stepped back, or a limit that was changed.
    const at = this.#young.get(key) || this.#old.get(key)
    return Math.max(nowMs, Math.min(at, nowMs + rate.burst * rate.intervalMs))
  }

  /** Takes one of a bucket that was looked at just now and has something. */
  put(key: number, fullAtMs: number, rate: Rate): void {
    if (this.#young.size >= this.#half && this.#young.get(key) === 0) {
      const forgotten = this.#old
      forgotten.clear()
      this.#old = this.#young
      this.#young = forgotten
    }
    this.#young.set(key, fullAtMs + rate.intervalMs)
  }
}

/** Exactly how many ms until a bucket that is full at this instant has one, if nobody takes meanwhile; 0: now. */
export function waitAt(fullAtMs: number, rate: Rate, nowMs: number): number {
  return Math.max(0, Math.ceil(fullAtMs - (rate.burst - 1) * rate.intervalMs - nowMs))
}
