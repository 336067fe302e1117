import { bounds } from './bounds.ts'

/** What we need of an Analytics Engine dataset. */
export interface Dataset {
  writeDataPoint(point: { indexes: string[]; blobs: string[]; doubles: number[] }): void
}

/**
 * Counts in isolate memory, and writes them now and then, a data point for each name: index `claims`, blob 1 the name,
 * double 1 how often since the last point. An isolate that ends takes at most `metricsEveryMs` of counts with it.
 * Names are the decision or refusal, with `_HERE` behind what was refused without asking the arbiter.
 */
export class Metrics {
  readonly #dataset: Dataset | undefined
  readonly #clock: () => number
  readonly #counts = new Map<string, number>()
  readonly #written = new Map<string, number>()
  #writeAtMs: number

  constructor(dataset: Dataset | undefined, clock: () => number) {
    this.#dataset = dataset
    this.#clock = clock
    this.#writeAtMs = clock() + bounds.metricsEveryMs
  }

  count(name: string): void {
    this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1)
    if (this.#clock() >= this.#writeAtMs) this.#write()
  }

  /** By name, since the isolate began. */
  get totals(): ReadonlyMap<string, number> {
    return this.#counts
  }

  #write(): void {
    this.#writeAtMs = this.#clock() + bounds.metricsEveryMs
    for (const [name, count] of this.#counts) {
      const since = count - (this.#written.get(name) ?? 0)
      if (since === 0) continue
      this.#dataset?.writeDataPoint({ indexes: ['claims'], blobs: [name], doubles: [since] })
      this.#written.set(name, count)
    }
  }
}
