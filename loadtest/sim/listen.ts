import type { OutboxEvent } from '../../core/notify/event.ts'
import type { Core } from './core.ts'
import type { Town } from './town.ts'

/**
 * A person's own stream, opened before anything is claimed: it begins with what stands in the ledger, and all that
 * comes later is heard. When its process dies it is opened again elsewhere.
 */
export class Listener {
  readonly userId: string
  readonly #town: Town
  readonly heard = new Set<string>()
  /** Where the stream is, while it stands whole. */
  at: Core | undefined

  constructor(userId: string, town: Town) {
    this.userId = userId
    this.#town = town
  }

  async run(): Promise<void> {
    const { scheduler, network } = this.#town
    while (!this.#town.isOver) {
      const core = this.#town.someCore()
      if (core !== undefined && (await this.#open(core))) {
        network.note(`${this.userId} listens at ${core.process.name}`)
        this.at = core
        while (core.process.alive && !this.#town.isOver) await scheduler.sleep(500)
        if (!this.#town.isOver) this.at = undefined
      } else await scheduler.sleep(400)
    }
  }

  /** @returns whether it stands: registered first, then told the present state. */
  async #open(core: Core): Promise<boolean> {
    const follower = { userId: this.userId, hear: (event: OutboxEvent) => this.#hear(event) }
    core.hub.follow(follower)
    const claims = await Promise.race([
      core.latestClaims(this.userId).catch(() => undefined),
      this.#town.scheduler.sleep(6_000),
    ])
    if (claims === undefined || !core.process.alive) {
      core.hub.unfollow(follower)
      return false
    }
    for (const { request_id, status } of claims) if (status !== 'PROCESSING') this.heard.add(request_id)
    return true
  }

  #hear(event: OutboxEvent): void {
    if (event.userId !== this.userId)
      this.#town.faults.push(`5: ${this.userId} heard what was for ${event.userId}`)
    if (event.requestId === null) return
    this.heard.add(event.requestId)
    const { userId, requestId } = { userId: this.userId, requestId: event.requestId }
    const data = JSON.parse(event.data) as { status: string; reason?: string; coupon_id?: string }
    if (data.status !== 'DELIVERED' && data.status !== 'REJECTED') return
    const { status, reason, coupon_id: couponId } = data
    this.#town.record.told.push({ userId, requestId, status, by: 'event', reason, couponId })
  }
}
