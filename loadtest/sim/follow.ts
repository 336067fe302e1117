import type { OutboxEvent } from '../../core/notify/event.ts'
import { Refused } from '../../core/refusal.ts'
import type { Core } from './core.ts'
import type { Acceptance } from './shoppers.ts'
import type { Town } from './town.ts'

/** How a client waits for its result: by a stream of events, by asking, or not at all until much later. */
export type Manner = 'listens' | 'asks' | 'leaves'

const statuses = new Set(['PROCESSING', 'REVIEW', 'DELIVERED', 'REJECTED'])

/** One client that waits for what becomes of its acceptance. */
export class Follow {
  readonly acceptance: Acceptance
  readonly manner: Manner
  readonly #town: Town
  /** A final result was told. */
  final: 'DELIVERED' | 'REJECTED' | undefined
  /** Where its stream is, while it has one. */
  listeningAt: Core | undefined
  heard = false

  constructor(acceptance: Acceptance, manner: Manner, town: Town) {
    this.acceptance = acceptance
    this.manner = manner
    this.#town = town
  }

  async run(): Promise<void> {
    if (this.manner === 'listens') return this.#listen()
    if (this.manner === 'asks') return this.#poll()
  }

  /** Registers first and looks then, as a stream does: nothing can fall in between. */
  async #listen(): Promise<void> {
    const { scheduler } = this.#town
    while (this.final === undefined && !this.#town.isOver) {
      const core = this.#town.someCore()
      if (core === undefined) {
        await scheduler.sleep(300)
        continue
      }
      const { userId } = this.acceptance
      const follower = { userId, hear: (event: OutboxEvent) => this.#hear(event) }
      core.hub.follow(follower)
      const said = await this.ask(core)
      if (statuses.has(said)) {
        this.listeningAt = core
        while (core.process.alive && this.final === undefined && !this.#town.isOver)
          await scheduler.sleep(500)
        this.listeningAt = this.#town.isOver ? core : undefined
      } else {
        // The stream was refused: there is none, and its client comes again.
        core.hub.unfollow(follower)
        if (said === 'CLAIM_NOT_FOUND') await this.present(core)
        await scheduler.sleep(500)
      }
    }
  }

  #hear(event: OutboxEvent): void {
    const { userId, requestId } = this.acceptance
    if (event.userId !== userId) this.#town.faults.push(`5: ${userId} heard what was for ${event.userId}`)
    if (event.requestId !== requestId) return
    const data = JSON.parse(event.data) as { status: string; reason?: string; coupon_id?: string }
    this.heard = true
    this.#take(data, 'event')
  }

  async #poll(): Promise<void> {
    const { scheduler, random } = this.#town
    while (this.final === undefined && !this.#town.isOver) {
      await scheduler.sleep(random.int(300, 1_500))
      const core = this.#town.someCore()
      if (core !== undefined && (await this.ask(core)) === 'CLAIM_NOT_FOUND') await this.present(core)
    }
  }

  /** @returns what was said: a status or a refusal's code; `no answer`. */
  ask(core: Core): Promise<string> {
    const { userId, requestId } = this.acceptance
    return this.#call('asks', core, () => core.readClaim(userId, requestId))
  }

  /** Presents the receipt: for an acceptance that nobody knows any more. */
  present(core: Core): Promise<string> {
    const { userId, receipt } = this.acceptance
    return this.#call('presents the receipt', core, () => core.honour(receipt, userId))
  }

  async #call(
    what: string,
    core: Core,
    work: () => Promise<{ status: string; reason?: string; coupon_id?: string }>,
  ): Promise<string> {
    const { scheduler, network } = this.#town
    const { userId, requestId } = this.acceptance
    let said = 'no answer'
    try {
      const view = await Promise.race([work(), scheduler.sleep(8_000)])
      if (view !== undefined) {
        said = view.status
        this.#take(view, what)
      }
    } catch (error) {
      said = error instanceof Refused ? error.code : `fault: ${(error as Error).message}`
    }
    network.note(`${userId} ${what} at ${core.process.name} for ${requestId} → ${said}`)
    return said
  }

  #take(
    { status, reason, coupon_id: couponId }: { status: string; reason?: string; coupon_id?: string },
    by: string,
  ): void {
    if (status !== 'DELIVERED' && status !== 'REJECTED') return
    const { userId, requestId } = this.acceptance
    this.#town.record.told.push({ userId, requestId, status, by, reason, couponId })
    this.final = status
  }
}
