import { Away } from './away.ts'
import { bounds } from './bounds.ts'
import type { Log } from './log.ts'

/** Not asked, because the last ones who asked had no answer. */
export class CircuitOpen extends Away {
  constructor(what: string, retryAfterMs: number) {
    super(`${what}: the circuit is open`, undefined, retryAfterMs)
  }
}

export interface BreakerOptions {
  /** Named in errors and in the log. */
  readonly what: string
  readonly log: Log
  /** After this a call has ended, or its request has died. */
  readonly callEndsMs: number
  clock(): number
}

/**
 * A circuit breaker for one dependency, as this isolate sees it: after so many failures in a row nobody is asked for a
 * while, and then one call at a time until one is answered. A probe whose request dies gives its place back by time;
 * that, and that its clock may stand still within a request, is why none of the usual libraries is used.
 */
export class Breaker {
  readonly #options: BreakerOptions
  #failures = 0
  #openUntilMs = 0
  #probeUntilMs = 0

  constructor(options: BreakerOptions) {
    this.#options = options
  }

  /**
   * @param isFailure whether this error says that the dependency is away; others say that it is there.
   * @throws CircuitOpen, with the time after which asking is worth while; or what `work` throws.
   */
  async run<T>(work: () => Promise<T>, isFailure: (error: unknown) => boolean): Promise<T> {
    this.#enter()
    try {
      const result = await work()
      this.#answered()
      return result
    } catch (error) {
      if (isFailure(error)) this.#failed()
      else this.#answered()
      throw error
    }
  }

  get what(): string {
    return this.#options.what
  }

  get isOpen(): boolean {
    return this.#failures >= bounds.circuitFailuresMax
  }

  #enter(): void {
    if (!this.isOpen) return
    const { what, clock, callEndsMs } = this.#options
    const nowMs = clock()
    const untilMs = nowMs < this.#openUntilMs ? this.#openUntilMs : this.#probeUntilMs
    if (nowMs < untilMs) throw new CircuitOpen(what, Math.min(untilMs - nowMs, bounds.circuitOpenMs))
    this.#probeUntilMs = nowMs + callEndsMs
  }

  #answered(): void {
    if (this.isOpen) this.#options.log('circuit_closed', { what: this.#options.what })
    this.#failures = 0
    this.#probeUntilMs = 0
  }

  #failed(): void {
    const { what, log, clock } = this.#options
    this.#failures++
    if (!this.isOpen) return
    if (this.#failures === bounds.circuitFailuresMax) log('circuit_opened', { what })
    this.#openUntilMs = clock() + bounds.circuitOpenMs
    this.#probeUntilMs = 0
  }
}
