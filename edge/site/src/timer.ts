import type { ServerClock } from './clock.ts'

/** Waits longer than this are chained: beyond 2^31 ms a browser's timer fires at once, and clocks get corrected. */
const stretchMs = 30_000

/** One timer that goes off at an instant of the server's clock; setting it anew replaces the instant before. */
export class ServerTimer {
  readonly #clock: ServerClock
  #handle: ReturnType<typeof setTimeout> | undefined

  constructor(clock: ServerClock) {
    this.#clock = clock
  }

  /** @param at undefined only stops it. */
  set(at: number | undefined, then: () => void): void {
    clearTimeout(this.#handle)
    if (at === undefined) return
    const wait = Math.max(0, at - this.#clock.now())
    const next = wait > stretchMs ? () => this.set(at, then) : then
    this.#handle = setTimeout(next, Math.min(wait, stretchMs))
  }
}
