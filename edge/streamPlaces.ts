import { limits } from '../schema/limits.ts'
import { bounds } from './bounds.ts'

/** Gives a place back; again it does nothing. */
export type Release = () => void

/**
 * How many event streams each user has open through this isolate. The core has a cap of its own; this one keeps the
 * surplus of a user who opens ever more from costing a call each. A place whose request died without a word is given
 * back once its stream would have ended by itself.
 */
export class StreamPlaces {
  readonly #clock: () => number
  /** For each user the places' ends by time, of which each is an object of its own. */
  readonly #taken = new Map<string, Set<{ readonly untilMs: number }>>()
  #sweepAtUsers: number = bounds.streamUsersSweep

  constructor(clock: () => number) {
    this.#clock = clock
  }

  /** Undefined: the user has `sseConnectionsPerUserMax` open. */
  take(userId: string): Release | undefined {
    const nowMs = this.#clock()
    if (this.#taken.size >= this.#sweepAtUsers) this.#sweep(nowMs)
    const places = this.#taken.get(userId) ?? new Set()
    dropEnded(places, nowMs)
    if (places.size >= limits.sseConnectionsPerUserMax) return undefined
    const place = { untilMs: nowMs + limits.coreTimeoutMs + limits.sseLifetimeMs }
    places.add(place)
    this.#taken.set(userId, places)
    return () => {
      places.delete(place)
      if (places.size === 0 && this.#taken.get(userId) === places) this.#taken.delete(userId)
    }
  }

  /** Users with a place. */
  get users(): number {
    return this.#taken.size
  }

  #sweep(nowMs: number): void {
    for (const [userId, places] of this.#taken) {
      dropEnded(places, nowMs)
      if (places.size === 0) this.#taken.delete(userId)
    }
    this.#sweepAtUsers = Math.max(bounds.streamUsersSweep, 2 * this.#taken.size)
  }
}

function dropEnded(places: Set<{ readonly untilMs: number }>, nowMs: number): void {
  for (const place of places) if (nowMs >= place.untilMs) places.delete(place)
}
