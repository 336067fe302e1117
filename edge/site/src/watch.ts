import { type Api, settledOf } from './api.ts'
import type { Settled } from './machine.ts'
import { pollDelay, retryDelay } from './plan.ts'

/**
 * Waits for a claim's result: told by the event stream, and asked for when the stream is silent or can't be had.
 * Polls back off and have a budget, so that a page forgotten in a pocket asks no more.
 */
export interface Watch {
  stop(): void
  /** The reader is back: asks at once, with a small new budget. */
  look(): void
}

export interface WatchOrder {
  statusUrl: string
  eventsUrl: string
  pollAfterMs: number
  /** Nothing can be known before this many ms from now (a draw to come): no stream is held open for it. */
  quietMs: number
}

export interface WatchParts {
  status: Api['status']
  login(): Promise<string | undefined>
  random(): number
  /** Called with every status; the watch ends by itself after a final one. */
  tell(settled: Settled): void
}

const pollBudget = 40
const lookBudget = 5
/** While a stream is open its silence is believed for this long: something between may hold events back. */
const silenceMs = 8_000
/** A stream that ends is opened again at a moment of our own, since browsers all do it at the same one. */
const streamsMax = 20

export function watchClaim(order: WatchOrder, parts: WatchParts): Watch {
  let stopped = false
  let stream: EventSource | undefined
  let streams = 0
  let polls = 0
  let budget = pollBudget
  let hintMs = order.pollAfterMs
  let pollTimer: ReturnType<typeof setTimeout> | undefined
  let streamTimer: ReturnType<typeof setTimeout> | undefined

  const stop = () => {
    stopped = true
    stream?.close()
    clearTimeout(pollTimer)
    clearTimeout(streamTimer)
  }
  const tell = (settled: Settled) => {
    if (stopped) return
    if (settled.status === 'DELIVERED' || settled.status === 'REJECTED') stop()
    parts.tell(settled)
  }
  const pollIn = (ms: number) => {
    clearTimeout(pollTimer)
    if (!stopped && budget > 0) pollTimer = setTimeout(poll, ms)
  }

  async function poll(): Promise<void> {
    budget--
    const answer = await parts.status(order.statusUrl, await parts.login())
    if (stopped) return
    if (answer.kind === 'status') {
      hintMs = answer.pollAfterMs ?? hintMs
      tell(answer.settled)
    }
    const asked = answer.kind === 'refused' ? (answer.refused.retryAfterMs ?? 0) : 0
    const pause = Math.max(asked, pollDelay(polls++, hintMs, parts.random()))
    pollIn(stream?.readyState === EventSource.OPEN ? Math.max(pause, silenceMs) : pause)
  }

  function listen(): void {
    if (stopped || streams >= streamsMax) return
    stream = new EventSource(order.eventsUrl)
    stream.onopen = () => pollIn(silenceMs)
    stream.onerror = () => {
      stream?.close()
      pollIn(pollDelay(polls, hintMs, parts.random()))
      streamTimer = setTimeout(listen, 2 * retryDelay(streams++, undefined, parts.random()))
    }
    const heard = (status: string) => (event: MessageEvent) => {
      try {
        tell(settledOf({ ...JSON.parse(event.data), status }))
      } catch {
        // An event that can't be read is left to the next poll.
      }
    }
    stream.addEventListener('claim.delivered', heard('DELIVERED'))
    stream.addEventListener('claim.rejected', heard('REJECTED'))
  }

  if (order.quietMs > 0) pollIn(Math.min(order.quietMs, 2 ** 31 - 1))
  else {
    listen()
    pollIn(silenceMs)
  }
  return {
    stop,
    look() {
      if (stopped) return
      budget = Math.max(budget, lookBudget)
      polls = 0
      pollIn(parts.random() * 500)
    },
  }
}
