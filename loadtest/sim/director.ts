import { bucketOf } from '../../schema/hash.ts'
import { readGates, readLedger } from './audit.ts'
import { Follow } from './follow.ts'
import type { Ground } from './ground.ts'
import type { RedisServer } from './server.ts'
import { Shopper } from './shoppers.ts'
import type { Town } from './town.ts'

/** Leads a seed through its parts: people and trouble; calm; receipts; late comers; and the end. */

/** Within so much virtual time all must have come to rest once nothing goes wrong any more. */
const restWithinMs = 60_000
/** Stock that wanders between empty buckets waits up to 10 s in each. */
const reachesWithinMs = 60_000
/** The guardian rebuilds what it can within this, or logs that it can't. */
const healsWithinMs = 15_000
const restoredLeaseMs = 6_000
/** What Redis does not say is found by the check that comes every 15 s, and believed the second time. */
const noticesWithinMs = 30_000

export class Director {
  readonly #town: Town
  readonly #server: RedisServer
  readonly #ground: Ground
  /** What did not come to its end. */
  readonly faults: string[] = []
  isDone = false

  constructor(town: Town, server: RedisServer, ground: Ground) {
    this.#town = town
    this.#server = server
    this.#ground = ground
  }

  async direct(): Promise<void> {
    const { plan, scheduler, network } = this.#town
    const people = Array.from({ length: plan.users }, (_, i) => this.#shopper(`user-${i + 1}`))
    const visits = Promise.all(people.map((person) => person.visit(plan.activeMs)))
    await scheduler.sleep(plan.activeMs)
    network.stormy = false
    network.note('-- from now on nothing goes wrong any more')
    await visits
    const deadlineMs = scheduler.elapsedMs + restWithinMs
    await this.#rebuildIfNobodyDoes(deadlineMs)
    await this.#presentReceipts(deadlineMs)
    await this.#rest(deadlineMs)
    await this.#admitLateComers()
    await this.#presentReceipts(scheduler.elapsedMs + restWithinMs)
    await this.#rest(scheduler.elapsedMs + restWithinMs)
    // Time for what was published to reach who listens.
    await scheduler.sleep(1_000)
    this.isDone = true
  }

  #shopper(userId: string): Shopper {
    return new Shopper(userId, this.#town, this.#ground.keyrings.claimToken)
  }

  /** What the guardian does not heal by itself is an operator's: see `Town.rebuild`. */
  async #rebuildIfNobodyDoes(deadlineMs: number): Promise<void> {
    const { plan, scheduler } = this.#town
    if (this.#server.losses === 0) return
    const unseen = plan.happenings.some((one) => one.kind === 'rewind' && !one.seen)
    // A state that was restored brings its lease along: only what is left after that is the guardian's own word.
    await scheduler.sleep(unseen ? noticesWithinMs : restoredLeaseMs)
    const untilMs = scheduler.elapsedMs + healsWithinMs
    for (;;) {
      const { state, bucketCount } = await this.#ledger()
      if (state !== 'ACTIVE') break
      const { gates, leasedUntilMs } = await this.#gates(bucketCount)
      if (gates === bucketCount && leasedUntilMs > scheduler.nowMs) return
      if (scheduler.elapsedMs > untilMs) break
      await scheduler.sleep(500)
    }
    while (scheduler.elapsedMs < deadlineMs && !(await this.#town.rebuild())) await scheduler.sleep(1_000)
  }

  /** Everybody who saw an acceptance asks what became of it, with the receipt where nobody knows it. */
  async #presentReceipts(deadlineMs: number): Promise<void> {
    const { scheduler, record } = this.#town
    const final = new Set(
      record.follows.filter(({ final }) => final !== undefined).map(({ acceptance }) => acceptance.requestId),
    )
    for (const acceptance of record.acceptances.values()) {
      if (final.has(acceptance.requestId)) continue
      const follow = new Follow(acceptance, 'leaves', this.#town)
      let said = 'nothing yet'
      while (follow.final === undefined && scheduler.elapsedMs < deadlineMs) {
        const core = this.#town.someCore()
        if (core !== undefined) said = await follow.ask(core)
        if (core !== undefined && said === 'CLAIM_NOT_FOUND') said = await follow.present(core)
        if (follow.final === undefined) await scheduler.sleep(500)
      }
      if (follow.final === undefined)
        this.faults.push(`5: request ${acceptance.requestId} of ${acceptance.userId} has no end: ${said}`)
    }
  }

  /** Until nothing is under way: no entry, no event, no debt, no transfer; and who may sell has a lease. */
  async #rest(deadlineMs: number): Promise<void> {
    const { scheduler } = this.#town
    let busy = await this.#unrest()
    while (busy !== undefined && scheduler.elapsedMs < deadlineMs) {
      await scheduler.sleep(500)
      busy = await this.#unrest()
    }
    if (busy !== undefined) this.faults.push(`5: no rest in ${restWithinMs / 1000} s: ${busy}`)
  }

  async #unrest(): Promise<string | undefined> {
    const { scheduler } = this.#town
    const ledger = await this.#ledger()
    const gates = await this.#gates(ledger.bucketCount)
    const open = await this.#real(
      this.#ground.sql`SELECT count(*)::int AS n FROM transfers WHERE state <> 'DEPOSITED'`,
    )
    if (gates.gates < ledger.bucketCount) return `${ledger.bucketCount - gates.gates} gates are missing`
    if (gates.entries > 0) return `${gates.entries} entries in the logs`
    if (ledger.unpublished > 0) return `${ledger.unpublished} events in the outbox`
    const debts = ledger.compensations.filter(({ state }) => state !== 'CLOSED').length
    if (debts > 0) return `${debts} debts of stock`
    if (Number(open[0]!['n']) > 0) return `${open[0]!['n']} transfers`
    if (ledger.state === 'ACTIVE' && gates.leasedUntilMs <= scheduler.nowMs) return 'a gate has no lease'
    return undefined
  }

  /** As long as there is stock, people who come and ask get it: nobody is told SOLD_OUT for ever. */
  async #admitLateComers(): Promise<void> {
    const { plan, scheduler, network } = this.#town
    const ledger = await this.#ledger()
    const opensIn = plan.startsInMs - scheduler.elapsedMs
    if (opensIn > 0) await scheduler.sleep(opensIn)
    const isOpen = ledger.state === 'ACTIVE' && scheduler.elapsedMs < plan.endsInMs
    // Where an empty bucket is sold out by policy, what is left may be out of reach.
    if (!isOpen || (plan.tailPolicy === 'accept' && plan.bucketCount > 1)) return
    const gates = await this.#gates(ledger.bucketCount)
    const left = gates.remaining + ledger.unallocated
    network.note(`-- ${left} are left; late comers come`)
    const wanted = Math.min(left, plan.bucketCount)
    if (wanted === 0) return
    const untilMs = scheduler.elapsedMs + reachesWithinMs
    let accepted = 0
    const comers = Array.from({ length: plan.bucketCount }, (_, bucket) => this.#lateComerIn(bucket))
    const last = await Promise.all(
      comers.map(async (comer) => {
        const answer = await comer.comeLate(() => scheduler.elapsedMs < untilMs && accepted < wanted)
        if (answer?.code === 'ACCEPTED') accepted += 1
        return answer?.code
      }),
    )
    if (accepted < wanted)
      this.faults.push(
        `1: of ${left} that are left ${accepted} could be had in ${reachesWithinMs / 1000} s: ${last}`,
      )
  }

  /** One in each bucket: what is left may lie, or come to lie, in any of them. */
  #lateComerIn(bucket: number): Shopper {
    const { campaignId, plan } = this.#town
    for (let i = 1; ; i++) {
      const userId = `late-${i}`
      if (bucketOf(userId, campaignId, plan.bucketCount) === bucket) return this.#shopper(userId)
    }
  }

  #ledger() {
    return this.#real(readLedger(this.#ground.sql, this.#town.campaignId))
  }

  #gates(bucketCount: number) {
    return this.#real(readGates(this.#ground.redis, this.#town.campaignId, bucketCount))
  }

  #real<T>(work: PromiseLike<T>): Promise<T> {
    return this.#town.scheduler.real(work)
  }
}
