import { build, type Histogram } from 'hdr-histogram-js'

/** Latencies in ms with 0.1 ms resolution, as high-dynamic-range histograms. */
export class Latencies {
  readonly #histogram: Histogram = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: 36_000_000,
    numberOfSignificantValueDigits: 3,
  })

  record(ms: number): void {
    this.#histogram.recordValue(Math.max(1, Math.round(ms * 10)))
  }
  get count(): number {
    return this.#histogram.totalCount
  }
  /** ms at this percentile; 0 when nothing was recorded. */
  at(percentile: number): number {
    return this.count === 0 ? 0 : Math.round(this.#histogram.getValueAtPercentile(percentile)) / 10
  }
}
