import type { Logger } from 'pino'
import { renewLease } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import { reconcileGates } from '../campaigns/gates.ts'
import { causeOf } from '../claim/failures.ts'
import { type Alarm, makeAlarm, within } from '../claim/patience.ts'
import type { Deps, Running } from '../deps.ts'
import type { StoreNode } from '../stores/store.ts'
import { findActive } from './active.ts'
import { checkIdentity, type Finding, type PrimedBucket } from './identity.ts'
import { type Incarnation, isSameLife, readIncarnation } from './incarnation.ts'
import { type Lag, readLag } from './lag.ts'
import { areApart, isRecoverable, type Loss, reasonToWithhold } from './lease.ts'
import { type GuardianMetrics, guardianMetrics } from './metrics.ts'
import { byServer, type Server } from './servers.ts'
import {
  type BucketView,
  believe,
  findFinal,
  forgetFinding,
  isCheckDue,
  noteLife,
  noteStranded,
  updateWatchList,
  viewOf,
  type Watched,
} from './watchList.ts'

export type GuardianDeps = Pick<Deps, 'db' | 'stores' | 'runner' | 'log' | 'clock' | 'metrics'>

export interface GuardianOptions {
  /**
   * Called with a bucket whose loss the ledger can make good, once at a time for each.
   * @returns whether it is to be checked again now.
   */
  recover?(bucket: PrimedBucket, loss: Loss): Promise<boolean>
}

/** Buckets looked at together: they share a connection with everyone else. */
const atOnceMax = 64
const checkAgainMs = 2_000
const stopMs = 3_000

/**
 * Lets buckets accept claims, a few seconds at a time, for as long as all that comes after acceptance is well
 * (CL12). Nobody has to notice a failure for admission to stop: this process being dead is enough. Several
 * processes may do it side by side.
 */
export class Guardian implements Running {
  readonly #deps: GuardianDeps
  readonly #recover: GuardianOptions['recover']
  readonly #recovering = new Set<Watched>()
  readonly #log: Logger
  readonly #metrics: GuardianMetrics
  readonly #abort = new AbortController()
  readonly #alarm: Alarm = makeAlarm(this.#abort.signal)
  readonly #watched = new Map<string, Watched>()
  /** Servers that were asked whether they evict. */
  readonly #met = new Set<string>()
  #reconciling: Promise<void> | undefined
  #checking: Promise<void> | undefined
  readonly #running: Promise<void>

  constructor(deps: GuardianDeps, options: GuardianOptions = {}) {
    this.#deps = deps
    this.#recover = options.recover
    this.#log = deps.log.child({ part: 'guardian' })
    this.#metrics = guardianMetrics(deps.metrics)
    this.#running = this.#run()
  }

  /** Has it look now, as after a publication. */
  nudge(): void {
    this.#alarm.wake()
  }

  /** What this process does with each bucket, and why. */
  view(): BucketView[] {
    return [...this.#watched.values()].map(viewOf)
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    const ended = Promise.all([this.#running, this.#reconciling, this.#checking])
    await within(ended, stopMs, 'stopping the guardian').catch((error) =>
      this.#log.warn({ cause: causeOf(error) }, 'the guardian did not end in order'),
    )
  }

  async #run(): Promise<void> {
    while (!this.#abort.signal.aborted) {
      const started = performance.now()
      try {
        await this.#round()
      } catch (error) {
        this.#log.error({ err: error }, 'a round of the guardian failed')
      }
      this.#countWithheld()
      await this.#alarm.wait(Math.max(0, limits.leaseRenewEveryMs - (performance.now() - started)))
    }
  }

  async #round(): Promise<void> {
    const active = await this.#orWithhold('postgres_away', findActive(this.#deps), this.#watched.values())
    if (active === undefined) return
    updateWatchList(this.#watched, active)
    // Neither may hold up the leases: a gate that can't be told, and a count that takes its time.
    this.#reconciling ??= this.#reconcile().finally(() => {
      this.#reconciling = undefined
    })
    const all = [...this.#watched.values()]
    const servers = this.#serversOf(all)
    // Each by itself: a server that is away takes the leases of its own buckets only.
    const lives = await Promise.all(servers.map((server) => this.#meet(server)))
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined
    })
    const final = findFinal(all)
    const lags = await Promise.all(
      servers.map(({ node, buckets }, i) =>
        lives[i] === undefined ? [] : this.#tendAll(node, buckets, lives[i], final),
      ),
    )
    const known = lags.flat()
    this.#metrics.entries.set(known.reduce((sum, { entries = 0 }) => sum + entries, 0))
    this.#metrics.oldestSeconds.set(known.reduce((most, { oldestMs }) => Math.max(most, oldestMs), 0) / 1000)
  }

  #serversOf(all: readonly Watched[]): Server[] {
    return byServer(this.#deps.stores, all, (one, error) => this.#withhold(one, 'redis_away', error))
  }

  /** Which life the server is in; undefined, and its buckets get no lease, when it doesn't answer. */
  async #meet({ name, node, buckets }: Server): Promise<Incarnation | undefined> {
    const life = await this.#orWithhold('redis_away', readIncarnation(node.client, this.#deps.clock), buckets)
    if (life === undefined) return undefined
    if (!this.#met.has(name) && life.evictionPolicy === undefined)
      this.#log.warn(
        { server: name },
        'Redis does not say its maxmemory-policy: see to it that it is noeviction',
      )
    this.#met.add(name)
    const moved = buckets.filter((one) => noteLife(one, life))
    if (moved.length > 0)
      this.#log.warn(
        { server: name, now: life.id, buckets: moved.length },
        'Redis is another incarnation: no leases until checked',
      )
    return life
  }

  async #tendAll(
    node: StoreNode,
    buckets: readonly Watched[],
    life: Incarnation,
    final: ReadonlySet<Watched>,
  ): Promise<Lag[]> {
    const lags: Lag[] = []
    for (let at = 0; at < buckets.length; at += atOnceMax)
      lags.push(
        ...(await Promise.all(
          buckets.slice(at, at + atOnceMax).map((one) => this.#tend(node, one, life, final.has(one))),
        )),
      )
    return lags
  }

  /** Undefined, and none of the buckets gets a lease, when the work fails or takes too long. */
  async #orWithhold<T>(
    why: 'postgres_away' | 'redis_away',
    work: Promise<T>,
    buckets: Iterable<Watched>,
  ): Promise<T | undefined> {
    try {
      return await within(work, limits.coreTimeoutMs, why)
    } catch (error) {
      for (const one of buckets) this.#withhold(one, why, error)
      return undefined
    }
  }

  async #reconcile(): Promise<void> {
    try {
      await reconcileGates({ ...this.#deps, log: this.#log })
    } catch (error) {
      this.#log.warn({ cause: causeOf(error) }, 'gates could not be told; the next round tries again')
    }
  }

  /** Checks against the ledger what was not found to hold in this life of Redis yet, and the rest from time to time. */
  async #check(): Promise<void> {
    const now = performance.now()
    const due = [...this.#watched.values()].filter((one) => one.life !== undefined && isCheckDue(one, now))
    for (const one of due) {
      one.checkDueAt = now + checkAgainMs
      if (one.stranded !== undefined) one.stranded.checked = true
    }
    for (const { buckets } of this.#serversOf(due)) await this.#checkOn(buckets)
  }

  /** Buckets of one server: one that is away keeps no other's from being checked. */
  async #checkOn(due: readonly Watched[]): Promise<void> {
    const started = performance.now()
    const lives = due.map(({ life }) => life!)
    try {
      const findings = await checkIdentity(
        this.#deps,
        due.map(({ bucket }) => bucket),
      )
      const tookMs = performance.now() - started
      due.forEach((one, i) => {
        if (!isSameLife(lives[i]!, one.life!)) return
        if (believe(one, findings[i]!, performance.now(), tookMs)) this.#note(one, findings[i]!)
        this.#heal(one)
      })
      if (findings.some(({ holds }) => holds)) this.#alarm.wake()
    } catch (error) {
      this.#log.warn({ cause: causeOf(error) }, 'buckets could not be checked against the ledger')
    }
  }

  #heal(one: Watched): void {
    const { finding } = one
    if (finding === undefined || finding.holds || !isRecoverable(finding.why)) return
    if (this.#recover === undefined || this.#recovering.has(one)) return
    this.#recovering.add(one)
    this.#recover(one.bucket, finding.why)
      .then((again) => {
        if (!again) return
        forgetFinding(one)
        this.#alarm.wake()
      })
      .catch((error) => this.#log.warn({ cause: causeOf(error) }, 'a recovery failed and is tried again'))
      .finally(() => this.#recovering.delete(one))
  }

  #note(one: Watched, finding: Finding): void {
    const known = one.finding
    one.finding = finding
    if (finding.holds || (known !== undefined && !known.holds && known.why === finding.why)) return
    const { campaignId, bucket } = one.bucket
    const level = finding.why === 'backlog' ? 'warn' : 'error'
    this.#log[level]({ campaign_id: campaignId, bucket, why: finding.why }, finding.detail)
  }

  /** Renews the bucket's lease, or says why not. */
  async #tend(
    node: StoreNode,
    one: Watched,
    { evictionPolicy, nowMs, clockAheadMs }: Incarnation,
    final: boolean,
  ): Promise<Lag> {
    let lag: Lag = { entries: undefined, oldestMs: 0 }
    try {
      lag = await readLag(node.client, one.bucket, nowMs)
      const { finding } = one
      const why = reasonToWithhold({
        evictionPolicy,
        clockAheadMs,
        finding: finding === undefined || finding.holds ? finding?.holds : finding.why,
        livedBefore: one.livedBefore,
        ...lag,
      })
      if (why === undefined) await this.#renew(node, one, final)
      else this.#withhold(one, why)
      noteStranded(one, lag.entries, performance.now())
    } catch (error) {
      this.#withhold(one, 'redis_away', error)
    }
    return lag
  }

  async #renew({ runner }: StoreNode, one: Watched, final: boolean): Promise<void> {
    const lease = await renewLease(runner, one.bucket, limits.leaseMs, final)
    if (lease === undefined) {
      this.#note(one, { holds: false, why: 'gate_missing', detail: 'the gate is gone; it needs a rebuild' })
      return this.#withhold(one, 'gate_missing')
    }
    if (areApart(lease.nowMs - this.#deps.clock())) {
      // It was stepped since this round began.
      await renewLease(runner, one.bucket, 0, final)
      return this.#withhold(one, 'clocks_apart')
    }
    const { campaignId, bucket } = one.bucket
    if (one.lease !== undefined && lease.accepted < one.lease.accepted) {
      // The same life, as far as Redis tells, and yet it forgot: a failover behind one name.
      const numbers = { before: one.lease.accepted, now: lease.accepted }
      this.#log.error({ campaign_id: campaignId, bucket, ...numbers }, 'Redis forgot acceptances')
      forgetFinding(one)
      await renewLease(runner, one.bucket, 0, final)
      return this.#withhold(one, 'redis_incarnation_changed')
    }
    one.lease = lease
    this.#metrics.renewed.inc()
    if (one.withheld === undefined) return
    one.withheld = undefined
    this.#log.info({ campaign_id: campaignId, bucket }, 'the bucket has its lease again')
  }

  #withhold(one: Watched, why: NonNullable<Watched['withheld']>, error?: unknown): void {
    if (one.withheld === why) return
    one.withheld = why
    const { campaignId, bucket } = one.bucket
    const cause = error === undefined ? {} : { cause: causeOf(error) }
    // What is new to us is checked first: that is no trouble yet.
    const level = why === 'not_checked_yet' ? 'debug' : 'warn'
    this.#log[level]({ campaign_id: campaignId, bucket, why, ...cause }, 'the bucket gets no lease')
  }

  #countWithheld(): void {
    this.#metrics.withheld.reset()
    for (const { withheld } of this.#watched.values())
      if (withheld !== undefined) this.#metrics.withheld.inc({ reason: withheld })
  }
}

export function startGuardian(deps: GuardianDeps, options: GuardianOptions = {}): Guardian {
  return new Guardian(deps, options)
}
