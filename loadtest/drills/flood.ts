import { setTimeout as pause } from 'node:timers/promises'
import type { Told } from '../audit/audit.ts'
import type { HttpClient, Reply } from '../traffic/client.ts'
import { encodeClaim, type Shopper } from '../traffic/shoppers.ts'
import { answerOf, bodyOf, type Recorder } from './recorder.ts'

export interface Acceptance extends Told {
  shopper: Shopper
  receipt: string
  body: string
  acceptedAtMs: number
}

export interface Pace {
  atOnce?: number
  everyMs?: number
  /** Codes after which people try again although they are final: the drill knows better. */
  again?: readonly string[]
}

/**
 * Shoppers who press until they have a final answer: after a 503, a 429 or a broken connection the same key again,
 * as the page does. So many press at once, and each new one waits a little, so that a flood lasts through a drill.
 */
export class Flood {
  readonly told: Acceptance[] = []
  readonly codes: Record<string, number> = {}
  /** Answers that no client should see. */
  readonly wrong: string[] = []
  readonly #client: HttpClient
  readonly #campaignId: string
  readonly #queue: Shopper[]
  readonly #recorder: Recorder
  #everyMs: number
  readonly #again: ReadonlySet<string>
  #ended = false
  readonly #running: Promise<unknown>

  constructor(
    client: HttpClient,
    campaignId: string,
    shoppers: readonly Shopper[],
    recorder: Recorder,
    { atOnce = 16, everyMs = 40, again = [] }: Pace = {},
  ) {
    this.#client = client
    this.#campaignId = campaignId
    this.#queue = [...shoppers]
    this.#recorder = recorder
    this.#everyMs = everyMs
    this.#again = new Set(again)
    this.#running = Promise.all(Array.from({ length: atOnce }, (_, i) => this.#work(`presser-${i}`)))
  }

  /** Shoppers who have not pressed yet. */
  get waiting(): number {
    return this.#queue.length
  }

  /** Until everybody has a final answer. @throws after `withinMs` */
  async finish(withinMs = 45_000): Promise<void> {
    const late = pause(withinMs, 'late', { ref: false })
    if ((await Promise.race([this.#running, late])) !== 'late') return
    this.#ended = true
    throw new Error(`after ${withinMs} ms people still wait for an answer: ${JSON.stringify(this.codes)}`)
  }

  /** From now on the next one presses at once. */
  hurry(): void {
    this.#everyMs = 0
  }

  async #work(process: string): Promise<void> {
    for (let next = this.#queue.shift(); next !== undefined && !this.#ended; next = this.#queue.shift()) {
      await this.#press(process, next)
      await pause(this.#everyMs)
    }
  }

  async #press(process: string, shopper: Shopper): Promise<void> {
    const request = encodeClaim(this.#client, this.#campaignId, shopper)
    while (!this.#ended) {
      const wait = await this.#send(process, request, shopper)
      if (wait === undefined) return
      await pause(wait)
    }
  }

  /** ms to wait before the same again; undefined: that was final. */
  async #send(process: string, request: Buffer, shopper: Shopper): Promise<number | undefined> {
    const complete = this.#recorder.begin(process, shopper)
    let reply: Reply
    try {
      reply = await this.#client.send(request)
    } catch {
      complete({ outcome: 'unknown', why: 'no answer' })
      this.#count('no answer')
      return 200
    }
    const body = bodyOf(reply)
    complete(answerOf(reply))
    if (reply.status === 202) {
      this.#count('accepted')
      const { request_id: requestId, receipt, accepted_at } = body as Record<string, string>
      this.told.push({
        ...{ userId: shopper.userId, requestId: requestId!, receipt: receipt!, shopper, body: reply.body },
        acceptedAtMs: Date.parse(accepted_at!),
      })
      return undefined
    }
    const code = typeof body['code'] === 'string' ? body['code'] : undefined
    this.#count(code ?? `HTTP ${reply.status}`)
    if (reply.status === 503 || reply.status === 429 || this.#again.has(code ?? '')) return 200
    if (code === undefined || reply.status >= 500) {
      this.wrong.push(`${reply.status} ${reply.body.slice(0, 200)}`)
      return 200
    }
    return undefined
  }

  #count(what: string): void {
    this.codes[what] = (this.codes[what] ?? 0) + 1
  }
}
