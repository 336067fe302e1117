import { Latencies } from '../measure/percentiles.ts'
import type { LatencyRecord } from '../record/record.ts'

/** What came and was answered since the last look: one sample of the timeline. */
export interface Window {
  offered: number
  accepted: number
  polls: number
  refused: Record<string, number>
  /** ms, from when each request was due. */
  acceptMs: number[]
}

/** Counts of a run, and of the moment. */
export class Tally {
  offered = 0
  answered = 0
  readonly codes: Record<string, number> = {}
  /** Bytes of the first request and answer of each kind. */
  readonly sizes: Record<string, number> = {}
  /** Answers that no client should get. */
  readonly wrong = new Set<string>()
  readonly #latencies = new Map<string, Latencies>()
  #window = emptyWindow()

  offer(): void {
    this.offered++
    this.#window.offered++
  }

  /** An answer under a code; `as` names the latencies that it belongs to. */
  answer(code: string, as: string, ms: number): void {
    this.codes[code] = (this.codes[code] ?? 0) + 1
    if (code === 'no answer') {
      this.#window.refused[code] = (this.#window.refused[code] ?? 0) + 1
      return
    }
    this.answered++
    this.time(as, ms)
    if (code === 'ACCEPTED') {
      this.#window.accepted++
      this.#window.acceptMs.push(ms)
    } else if (code !== 'REPLAYED' && code !== 'TOKEN_ISSUED')
      this.#window.refused[code] = (this.#window.refused[code] ?? 0) + 1
  }

  poll(ms: number): void {
    this.#window.polls++
    this.time('poll', ms)
  }

  time(name: string, ms: number): void {
    const latencies = this.#latencies.get(name) ?? new Latencies()
    this.#latencies.set(name, latencies)
    latencies.record(ms)
  }

  size(kind: string, request: Buffer, reply: { head: string; body: string }): void {
    if (this.sizes[`${kind} request`] !== undefined) return
    this.sizes[`${kind} request`] = request.length
    this.sizes[`${kind} answer`] = reply.head.length + 4 + Buffer.byteLength(reply.body)
  }

  /** The present window; a new one begins. */
  takeWindow(): Window {
    const window = this.#window
    this.#window = emptyWindow()
    return window
  }

  records(): LatencyRecord[] {
    return [...this.#latencies].map(([name, latencies]) => recordOf(name, latencies))
  }
}

export function recordOf(name: string, latencies: Latencies): LatencyRecord {
  return {
    name,
    count: latencies.count,
    p50_ms: latencies.at(50),
    p90_ms: latencies.at(90),
    p99_ms: latencies.at(99),
    p999_ms: latencies.at(99.9),
    max_ms: latencies.at(100),
  }
}

/** A percentile of a few values, by the nearest rank; null when there are none. */
export function percentileOf(values: readonly number[], percentile: number): number | null {
  if (values.length === 0) return null
  const sorted = [...values].sort((a, b) => a - b)
  const value = sorted[Math.min(sorted.length - 1, Math.ceil((percentile / 100) * sorted.length) - 1)]!
  return Math.round(value * 10) / 10
}

function emptyWindow(): Window {
  return { offered: 0, accepted: 0, polls: 0, refused: {}, acceptMs: [] }
}
