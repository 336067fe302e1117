import { setTimeout as pause } from 'node:timers/promises'
import type { Told } from '../audit/audit.ts'
import type { HttpClient } from '../traffic/client.ts'
import { encodeClaim, type Shopper } from '../traffic/shoppers.ts'

export interface Acceptance extends Told {
  shopper: Shopper
  receipt: string
  body: string
  acceptedAtMs: number
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
  readonly #everyMs: number
  #ended = false
  readonly #running: Promise<unknown>

  constructor(
    client: HttpClient,
    campaignId: string,
    shoppers: readonly Shopper[],
    { atOnce = 16, everyMs = 40 }: { atOnce?: number; everyMs?: number } = {},
  ) {
    this.#client = client
    this.#campaignId = campaignId
    this.#queue = [...shoppers]
    this.#everyMs = everyMs
    this.#running = Promise.all(Array.from({ length: atOnce }, () => this.#work()))
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

  async #work(): Promise<void> {
    for (let next = this.#queue.shift(); next !== undefined && !this.#ended; next = this.#queue.shift()) {
      await this.#press(next)
      await pause(this.#everyMs)
    }
  }

  async #press(shopper: Shopper): Promise<void> {
    const request = encodeClaim(this.#client, this.#campaignId, shopper)
    while (!this.#ended) {
      const wait = await this.#send(request, shopper)
      if (wait === undefined) return
      await pause(wait)
    }
  }

  /** ms to wait before the same again; undefined: that was final. */
  async #send(request: Buffer, shopper: Shopper): Promise<number | undefined> {
    let reply: Awaited<ReturnType<HttpClient['send']>>
    try {
      reply = await this.#client.send(request)
    } catch {
      this.#count('no answer')
      return 200
    }
    const body = parse(reply.body)
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
    if (reply.status === 503 || reply.status === 429) return 200
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

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}
