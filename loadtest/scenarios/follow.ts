import { setTimeout as pause } from 'node:timers/promises'
import type { HttpClient } from '../traffic/client.ts'
import { followEvents } from './eventStream.ts'
import type { Kind } from './population.ts'
import type { Tally } from './tally.ts'
import type { Acceptance } from './visitor.ts'

/** How those who were accepted learn what became of it: by asking, or by a stream. */
export class Watchers {
  readonly #client: HttpClient
  readonly #edgeUrl: string
  readonly #tally: Tally
  readonly #open = new Set<() => void>()
  readonly #running = new Set<Promise<void>>()
  #ended = false
  /** Who has heard a final result. */
  told = 0

  constructor(client: HttpClient, edgeUrl: string, tally: Tally) {
    this.#client = client
    this.#edgeUrl = edgeUrl
    this.#tally = tally
  }

  get streams(): number {
    return this.#open.size
  }

  /** Those who still wait for their result. */
  get waiting(): number {
    return this.#running.size
  }

  start(work: Promise<void>): void {
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  /** Ends those who still wait. */
  async end(): Promise<void> {
    this.#ended = true
    for (const close of this.#open) close()
    await Promise.all(this.#running)
  }

  /** Asks when it was told to, until the answer is final. */
  async poll(acceptance: Acceptance): Promise<void> {
    let wait = acceptance.pollAfterMs
    while (!this.#ended) {
      const dueAt = performance.now() + wait
      await pause(wait)
      if (this.#ended) return
      const status = await this.ask(acceptance, dueAt)
      if (status.final) {
        this.#hear('told by poll', acceptance)
        return
      }
      wait = status.pollAfterMs
    }
  }

  /** One question. @returns whether the answer is the last, and when to ask again */
  async ask(acceptance: Acceptance, dueAt: number): Promise<{ final: boolean; pollAfterMs: number }> {
    const request = this.#client.encode('GET', acceptance.statusPath, {
      'CF-Connecting-IP': acceptance.address,
    })
    try {
      const reply = await this.#client.send(request)
      this.#tally.poll(performance.now() - dueAt)
      this.#tally.size('poll', request, reply)
      const body = JSON.parse(reply.body) as Record<string, unknown>
      if (reply.status >= 500 && reply.status !== 503)
        this.#tally.wrong.add(`poll ${reply.status} ${reply.body.slice(0, 160)}`)
      const final = body['status'] === 'DELIVERED' || body['status'] === 'REJECTED'
      const later = body['poll_after_ms'] ?? body['retry_after_ms']
      return { final, pollAfterMs: typeof later === 'number' ? later : 1_000 }
    } catch {
      return { final: false, pollAfterMs: 1_000 }
    }
  }

  /** Listens, and again when the stream breaks, until the final result. */
  async listen(acceptance: Acceptance): Promise<void> {
    while (!this.#ended) {
      const stream = followEvents(this.#edgeUrl, acceptance.eventsPath, acceptance.address)
      this.#open.add(stream.close)
      const told = await stream.told
      this.#open.delete(stream.close)
      if (told !== 'closed') {
        this.#hear('told by stream', acceptance)
        return
      }
      if (!this.#ended) await pause(500 + Math.random() * 1_000)
    }
  }

  #hear(how: string, { acceptedAtMs }: Acceptance): void {
    this.told++
    // The arbiter's clock and ours are one machine's.
    this.#tally.time(how, Math.max(0, Date.now() - acceptedAtMs))
  }
}

/** Begins what people of this kind do once they are accepted. */
export function follow(kind: Kind, acceptance: Acceptance, watchers: Watchers): void {
  if (kind === 'poller') watchers.start(watchers.poll(acceptance))
  if (kind === 'listener') watchers.start(watchers.listen(acceptance))
}
