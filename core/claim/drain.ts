import { hostname } from 'node:os'
import type { Logger } from 'pino'
import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps, Running } from '../deps.ts'
import type { RedisClient, Store } from '../stores/store.ts'
import { type Group, groupEntries, type RawEntry } from './batch.ts'
import { openClusterReader } from './clusterReader.ts'
import { type Crew, crewMin, makeCrew } from './crew.ts'
import { type DeliverContext, deliver } from './deliver.ts'
import { causeOf } from './failures.ts'
import { type LogReader, openLogReader } from './logReader.ts'
import { type ClaimMetrics, claimMetrics } from './metrics.ts'
import { type OpenBuckets, watchOpenBuckets } from './openBuckets.ts'
import { type Alarm, backOff, isWorthTelling, makeAlarm, within } from './patience.ts'
import { type Recovered, type RecoverOptions, recoverOwn, recoverStale } from './recover.ts'
import { openRuleBook } from './rules.ts'
import { makeSlots } from './slots.ts'

export type DrainDeps = Pick<Deps, 'db' | 'stores' | 'runner' | 'log' | 'clock' | 'metrics'>

export interface DrainOptions {
  /** Name in the consumer groups; unlike any other that runs now, and best the same after a restart. */
  consumer?: string
  /** Told after commits that made events for the outbox, and debts of stock. */
  onCommitted?(made: { issued: number; rejected: number }): void
  /** Instead of limits.autoclaimIdleMs. */
  idleMs?: number
  /** Whose logs; the main store's unless given. */
  store?: Store
}

/** With more logs than this, each gives fewer entries at a time, so that what is read ahead stays bounded. */
const logsAtFullCount = 4
/** An entry that was handled alone as often as it was with others, and never came to an end, is given up. */
const condemnedDeliveries = 2 * limits.deliveriesMax
const staleLooksPerIdle = 3
const logAwayMs = 2_000
const stopMs = 10_000
const retireMs = 1_000

/**
 * Moves accepted claims from the logs of one store into the ledger (IS1): read, one transaction a batch, then mark and
 * acknowledge. What was read and not acknowledged is read again, after a restart or by another process, and has
 * the same outcome.
 */
export class Drain implements Running {
  readonly #consumer: string
  readonly #idleMs: number
  readonly #onCommitted: DrainOptions['onCommitted']
  readonly #redis: RedisClient
  readonly #log: Logger
  readonly #metrics: ClaimMetrics
  readonly #abort = new AbortController()
  readonly #alarm: Alarm = makeAlarm(this.#abort.signal)
  readonly #slots = makeSlots(crewMin)
  readonly #crew: Crew
  readonly #inHand = new Set<string>()
  readonly #reader: LogReader
  readonly #buckets: OpenBuckets
  readonly #context: DeliverContext
  readonly #recovery: RecoverOptions
  /** Logs whose pending entries of ours were looked at since the last time that replies may have been lost. */
  readonly #looked = new Set<string>()
  readonly #isCluster: boolean
  /** Logs that failed when they were looked through, and until when they are left alone (performance.now()). */
  readonly #awayUntil = new Map<string, number>()
  #staleDueAt = 0
  #postgresAway = false
  readonly #running: Promise<void>

  constructor(deps: DrainDeps, options: DrainOptions) {
    this.#consumer = options.consumer ?? `${hostname()}-${process.pid}`
    this.#idleMs = options.idleMs ?? limits.autoclaimIdleMs
    this.#onCommitted = options.onCommitted
    const store = options.store ?? deps.stores.main
    this.#redis = store.client
    this.#isCluster = store.isCluster
    this.#log = deps.log.child({ part: 'drain', consumer: this.#consumer, store: store.name })
    this.#metrics = claimMetrics(deps.metrics)
    this.#crew = makeCrew(store.client, deps.metrics, store.name, deps.stores.all.length)
    this.#context = this.#makeContext(deps)
    this.#recovery = this.#makeRecovery()
    this.#reader = this.#openReader(store)
    this.#buckets = watchOpenBuckets({ db: deps.db, store, log: this.#log }, () => {
      this.#alarm.wake()
      this.#reader.wake()
    })
    this.#running = this.#run()
  }

  /** Has it look for new campaigns now instead of within a second. */
  nudge(): void {
    this.#buckets.nudge()
  }

  /** Finishes the batches in work; what it can't finish stays in the logs. */
  async stop(): Promise<void> {
    this.#abort.abort()
    this.#reader.close()
    try {
      const ended = Promise.all([this.#running, this.#buckets.stop()]).then(() => this.#slots.idle())
      await within(ended, stopMs, 'stopping the drain')
      await within(this.#leaveGroups(), retireMs, 'leaving the groups')
    } catch (error) {
      this.#log.warn({ cause: causeOf(error) }, 'the drain did not end in order')
    }
  }

  #openReader(store: Store): LogReader {
    const options = { consumer: this.#consumer, log: this.#log }
    if (!store.isCluster)
      return openLogReader({
        ...options,
        redis: store.client,
        connect: () => store.connectTo(store.nodeOf('')),
      })
    return openClusterReader({
      ...options,
      store,
      // Read ahead of being asked for: from then on they are in our hands.
      received: ({ bucket, entries }) => {
        for (const { id } of entries) this.#inHand.add(entryKey(bucket, id))
      },
      doubtful: (bucket) => this.#looked.delete(logKey(bucket)),
    })
  }

  #makeContext(deps: DrainDeps): DeliverContext {
    return {
      pool: deps.db.issuance,
      ruleBook: openRuleBook(deps.db.issuance),
      clock: deps.clock,
      runner: deps.runner,
      log: this.#log,
      metrics: this.#metrics,
      signal: this.#abort.signal,
      noteDatabase: (away) => {
        if (this.#postgresAway && !away) this.#log.info('Postgres is back')
        this.#postgresAway = away
      },
    }
  }

  #makeRecovery(): RecoverOptions {
    return {
      redis: this.#redis,
      consumer: this.#consumer,
      idleMs: this.#idleMs,
      isInHand: (bucket, entryId) => this.#inHand.has(entryKey(bucket, entryId)),
      lost: ({ campaignId, bucket }, entryIds) => {
        this.#metrics.entriesLost.inc(entryIds.length)
        this.#log.error(
          { campaign_id: campaignId, bucket, entry_ids: entryIds },
          'delivered entries are gone: data loss',
        )
      },
      handle: (bucket, entries) => this.#takeUpAgain(bucket, entries),
    }
  }

  #takeUpAgain(bucket: Bucket, entries: readonly Recovered[]): Promise<{ done: Promise<void> }> {
    this.#metrics.recovered.inc(entries.length)
    this.#log.warn(
      { campaign_id: bucket.campaignId, bucket: bucket.bucket, entries: entries.length },
      'taking up entries that were delivered before',
    )
    const condemned = entries.filter(({ deliveries }) => deliveries > condemnedDeliveries)
    const others = entries.filter(({ deliveries }) => deliveries <= condemnedDeliveries)
    return this.#takeUp(bucket, entries, [...condemned.map(condemn), ...groupEntries(others)], true)
  }

  /** Waits for room, then starts the work. `done`: the entries are settled, or left in the log by an abort. */
  async #takeUp(
    bucket: Bucket,
    entries: readonly RawEntry[],
    groups: readonly Group[],
    careful: boolean,
  ): Promise<{ done: Promise<void> }> {
    const keys = entries.map(({ id }) => entryKey(bucket, id))
    for (const key of keys) this.#inHand.add(key)
    const release = await this.#slots.take()
    const done = this.#deliverAll(bucket, groups, careful).finally(() => {
      for (const key of keys) this.#inHand.delete(key)
      release()
    })
    return { done }
  }

  async #deliverAll(bucket: Bucket, groups: readonly Group[], careful: boolean): Promise<void> {
    try {
      for (const group of groups) {
        const made = await deliver(this.#context, bucket, group, careful)
        if (made.issued + made.rejected > 0) this.#onCommitted?.(made)
      }
    } catch (error) {
      if (this.#abort.signal.aborted) return
      this.#log.error({ err: error, campaign_id: bucket.campaignId }, 'a batch stays in the log')
    }
  }

  async #run(): Promise<void> {
    for (let failed = 0; !this.#abort.signal.aborted; ) {
      try {
        await this.#runOnce()
        failed = 0
      } catch (error) {
        if (this.#abort.signal.aborted) return
        // Replies that never came may have delivered entries to us. (A cluster's reader tells for which logs.)
        if (!this.#isCluster) this.#looked.clear()
        failed += 1
        if (isWorthTelling(failed))
          this.#log.warn(
            { cause: causeOf(error), times: failed },
            'reading the logs failed and is tried again',
          )
        await backOff(failed, this.#abort.signal).catch(() => undefined)
      }
    }
  }

  /** One bounded step: what was left unsettled first, then what is new. */
  async #runOnce(): Promise<void> {
    const open = this.#buckets.current()
    if (open.length === 0) return this.#alarm.wait(limits.drainBlockMs)
    await this.#recover(open)
    this.#slots.resize(await this.#crew.size(open))
    await this.#slots.free()
    const count = Math.ceil(limits.drainEntriesMax / Math.max(1, open.length / logsAtFullCount))
    for (const { bucket, entries } of await this.#reader.read(open, count)) {
      if (this.#abort.signal.aborted) return
      await this.#takeUp(bucket, entries, groupEntries(entries), false)
    }
  }

  async #recover(open: readonly Bucket[]): Promise<void> {
    // While Postgres is away, deliveries must not be counted: they say nothing about the entries.
    if (this.#postgresAway) return
    for (const bucket of open) {
      if (this.#looked.has(logKey(bucket))) continue
      await this.#perLog(bucket, async () => {
        await recoverOwn(this.#recovery, bucket)
        this.#looked.add(logKey(bucket))
      })
    }
    if (performance.now() < this.#staleDueAt) return
    for (const bucket of open) await this.#perLog(bucket, () => recoverStale(this.#recovery, bucket))
    this.#staleDueAt = performance.now() + this.#idleMs / staleLooksPerIdle
  }

  /** In a cluster a log's node may be away while the others' are there: it is left alone for a while. */
  async #perLog(bucket: Bucket, work: () => Promise<void>): Promise<void> {
    if (!this.#isCluster) return work()
    const key = logKey(bucket)
    if (performance.now() < (this.#awayUntil.get(key) ?? 0)) return
    try {
      await work()
      this.#awayUntil.delete(key)
    } catch (error) {
      if (this.#abort.signal.aborted) throw error
      if (!this.#awayUntil.has(key))
        this.#log.warn({ cause: causeOf(error), log_key: key }, 'a log can’t be looked through now')
      this.#looked.delete(key)
      this.#awayUntil.set(key, performance.now() + logAwayMs)
    }
  }

  /** Leaves the groups in which nothing of ours is pending; what is pending must outlive us (case-H12). */
  async #leaveGroups(): Promise<void> {
    for (const key of this.#buckets.current().map(logKey)) {
      const pending = (await this.#redis.xpending(key, drainGroup, '-', '+', 1, this.#consumer)) as unknown[]
      if (pending.length === 0) await this.#redis.xgroup('DELCONSUMER', key, drainGroup, this.#consumer)
    }
  }
}

export function startDrain(deps: DrainDeps, options: DrainOptions = {}): Drain {
  return new Drain(deps, options)
}

function entryKey(bucket: Bucket, entryId: string): string {
  return `${logKey(bucket)} ${entryId}`
}

function condemn(entry: Recovered): Group {
  const cause = `delivered ${entry.deliveries} times, and its handling never came to an end`
  const unreadable = [{ entry, position: -1, cause }]
  return { kind: 'claims', ruleVersion: 0, entries: [entry], claims: [], unreadable }
}
