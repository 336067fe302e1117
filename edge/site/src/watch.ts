import { type Api, settledOf } from './api.ts'
import type { Settled } from './model.ts'
import { pollDelay, retryDelay } from './plan.ts'

export interface WatchOrder {
  statusUrl: string
  eventsUrl: string
  pollAfterMs: number
  /** Nothing can be known before this many ms from now (a draw to come): no stream is held open for it. */
  quietMs: number
  status: Api['status']
  login(): string | undefined
  random(): number
  /** Called with every status; the watch ends by itself after a final one. */
  tell(settled: Settled): void
}

const pollBudget = 40
const lookBudget = 5
/** While a stream is open its silence is believed for this long: something between may hold events back. */
const silenceMs = 8_000
const streamsMax = 20
const timerMaxMs = 2 ** 31 - 1

/**
 * Waits for a claim's result: told by the event stream, and asked for when the stream is silent or can't be had.
 * Polls back off and have a budget, so that a page forgotten in a pocket asks no more.
 */
export class Watch {
  readonly #order: WatchOrder
  #stopped = false
  #stream: EventSource | undefined
  #streams = 0
  #polls = 0
  #budget = pollBudget
  #hintMs: number
  #pollTimer: ReturnType<typeof setTimeout> | undefined
  #streamTimer: ReturnType<typeof setTimeout> | undefined

  constructor(order: WatchOrder) {
    this.#order = order
    this.#hintMs = order.pollAfterMs
    if (order.quietMs > 0) {
      this.#pollIn(Math.min(order.quietMs, timerMaxMs))
      return
    }
    this.#listen()
    this.#pollIn(silenceMs)
  }

  stop(): void {
    this.#stopped = true
    this.#stream?.close()
    clearTimeout(this.#pollTimer)
    clearTimeout(this.#streamTimer)
  }

  /** The reader is back: asks at once, with a small new budget. */
  look(): void {
    this.#budget = Math.max(this.#budget, lookBudget)
    this.#polls = 0
    this.#pollIn(this.#order.random() * 500)
  }

  #tell(settled: Settled): void {
    if (this.#stopped) return
    if (settled.status === 'DELIVERED' || settled.status === 'REJECTED') this.stop()
    this.#order.tell(settled)
  }

  #pollIn(ms: number): void {
    clearTimeout(this.#pollTimer)
    if (!this.#stopped && this.#budget > 0) this.#pollTimer = setTimeout(() => void this.#poll(), ms)
  }

  async #poll(): Promise<void> {
    this.#budget--
    const answer = await this.#order.status(this.#order.statusUrl, this.#order.login())
    if (this.#stopped) return
    if (answer.kind === 'status') {
      this.#hintMs = answer.pollAfterMs ?? this.#hintMs
      this.#tell(answer.settled)
    }
    const asked = answer.kind === 'refused' ? (answer.refused.retryAfterMs ?? 0) : 0
    const pause = Math.max(asked, pollDelay(this.#polls++, this.#hintMs, this.#order.random()))
    this.#pollIn(this.#stream?.readyState === EventSource.OPEN ? Math.max(pause, silenceMs) : pause)
  }

  #listen(): void {
    if (this.#stopped || this.#streams >= streamsMax) return
    const stream = new EventSource(this.#order.eventsUrl)
    this.#stream = stream
    stream.onopen = () => this.#pollIn(silenceMs)
    stream.onerror = () => {
      // Browsers reopen a stream all at the same moment after an outage; closed and reopened here, they don't.
      stream.close()
      this.#pollIn(pollDelay(this.#polls, this.#hintMs, this.#order.random()))
      const pause = 2 * retryDelay(this.#streams++, undefined, this.#order.random())
      this.#streamTimer = setTimeout(() => this.#listen(), pause)
    }
    for (const status of ['DELIVERED', 'REJECTED']) {
      stream.addEventListener(`claim.${status.toLowerCase()}`, (event) => {
        try {
          this.#tell(settledOf({ ...JSON.parse(event.data), status }))
        } catch {
          this.#pollIn(0)
        }
      })
    }
  }
}
