import { hostname } from 'node:os'
import type { Redis } from 'ioredis'
import { type Bucket, drainGroup, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps, Running } from '../deps.ts'
import { type Group, groupEntries, type RawEntry } from './batch.ts'
import { type DeliverContext, deliver } from './deliver.ts'
import { causeOf } from './failures.ts'
import { openLogReader } from './logReader.ts'
import { claimMetrics } from './metrics.ts'
import { watchOpenBuckets } from './openBuckets.ts'
import { backOff, makeAlarm, within } from './patience.ts'
import { type Recovered, type RecoverOptions, recoverOwn, recoverStale } from './recover.ts'
import { openRuleBook } from './rules.ts'
import { makeSlots } from './slots.ts'

export type DrainDeps = Pick<Deps, 'db' | 'redis' | 'blockingRedis' | 'runner' | 'log' | 'clock' | 'metrics'>

export interface DrainOptions {
  /** Name in the consumer group; unlike any other that runs now, and best the same after a restart. */
  consumer?: string
  /** Told after commits that made events for the outbox, and debts of stock. */
  onCommitted?(made: { issued: number; rejected: number }): void
  /** Instead of limits.autoclaimIdleMs, for tests. */
  idleMs?: number
}

export interface Drain extends Running {
  /** Has it look for new campaigns now instead of within a second. */
  nudge(): void
}

/**
 * Batches in work at once. One keeps Postgres busy while another is read, decoded or settled, and a third fills
 * the gaps: measured, more gain nothing.
 */
const batchesInWork = 3
/** With many logs, each gives fewer entries at a time, so that what is read ahead stays bounded. */
const logsAtFullCount = 4
/** An entry that was handled alone as often as it was with others, and never came to an end, is given up. */
const condemnedDeliveries = 2 * limits.deliveriesMax
const staleLooksPerIdle = 3
const stopMs = 10_000
const retireMs = 1_000

/**
 * Moves accepted claims from the logs in Redis into the ledger (IS1): read, one transaction a batch, then mark and
 * acknowledge. What was read and not acknowledged is read again, after a restart or by another process, and has
 * the same outcome.
 */
export function startDrain(deps: DrainDeps, options: DrainOptions = {}): Drain {
  const consumer = options.consumer ?? `${hostname()}-${process.pid}`
  const idleMs = options.idleMs ?? limits.autoclaimIdleMs
  const log = deps.log.child({ part: 'drain', consumer })
  const abort = new AbortController()
  const slots = makeSlots(batchesInWork)
  const inHand = new Set<string>()
  const metrics = claimMetrics(deps.metrics)
  let postgresAway = false
  const ctx: DeliverContext = {
    pool: deps.db.issuance,
    ruleBook: openRuleBook(deps.db.issuance),
    clock: deps.clock,
    runner: deps.runner,
    log,
    metrics,
    signal: abort.signal,
    noteDatabase(away) {
      if (postgresAway && !away) log.info('Postgres is back')
      postgresAway = away
    },
  }
  const reader = openLogReader({ redis: deps.redis, connect: () => deps.blockingRedis(), consumer, log })
  const alarm = makeAlarm(abort.signal)
  const buckets = watchOpenBuckets({ ...deps, log }, () => {
    alarm.wake()
    reader.wake()
  })
  const keyOf = (bucket: Bucket, entryId: string) => `${logKey(bucket)} ${entryId}`

  /** Waits for room, then starts the work; `done` resolves when it is settled, or left in the log by an abort. */
  async function start(
    bucket: Bucket,
    entries: readonly RawEntry[],
    groups: readonly Group[],
    careful: boolean,
  ) {
    const keys = entries.map(({ id }) => keyOf(bucket, id))
    for (const key of keys) inHand.add(key)
    const release = await slots.take()
    const work = async () => {
      for (const group of groups) {
        const made = await deliver(ctx, bucket, group, careful)
        if (made.issued + made.rejected > 0) options.onCommitted?.(made)
      }
    }
    const done = work()
      .catch((error) => {
        if (abort.signal.aborted) return
        log.error({ err: error, campaign_id: bucket.campaignId }, 'a batch stays in the log')
      })
      .finally(() => {
        for (const key of keys) inHand.delete(key)
        release()
      })
    return { done }
  }

  const recovery: RecoverOptions = {
    redis: deps.redis,
    consumer,
    idleMs,
    isInHand: (bucket, entryId) => inHand.has(keyOf(bucket, entryId)),
    lost({ campaignId, bucket }, entryIds) {
      metrics.entriesLost.inc(entryIds.length)
      log.error(
        { campaign_id: campaignId, bucket, entry_ids: entryIds },
        'delivered entries are gone: data loss',
      )
    },
    handle(bucket, entries) {
      metrics.recovered.inc(entries.length)
      log.warn(
        { campaign_id: bucket.campaignId, entries: entries.length },
        'taking unsettled entries on again',
      )
      const condemned = entries.filter(({ deliveries }) => deliveries > condemnedDeliveries).map(condemn)
      const rest = groupEntries(entries.filter(({ deliveries }) => deliveries <= condemnedDeliveries))
      return start(bucket, entries, [...condemned, ...rest], true)
    },
  }

  /** Logs whose pending entries of ours were looked at since the last time that replies may have been lost. */
  const looked = new Set<string>()
  let staleDueAt = 0

  async function recover(open: readonly Bucket[]): Promise<void> {
    // While Postgres is away, deliveries must not be counted: they say nothing about the entries.
    if (postgresAway) return
    for (const bucket of open) {
      if (looked.has(logKey(bucket))) continue
      await recoverOwn(recovery, bucket)
      looked.add(logKey(bucket))
    }
    if (performance.now() < staleDueAt) return
    for (const bucket of open) await recoverStale(recovery, bucket)
    staleDueAt = performance.now() + idleMs / staleLooksPerIdle
  }

  /** One bounded step: what was left unsettled first, then what is new. */
  async function runOnce(): Promise<void> {
    const open = buckets.current()
    if (open.length === 0) return alarm.wait(limits.drainBlockMs)
    await recover(open)
    await slots.free()
    const count = Math.ceil(limits.drainEntriesMax / Math.max(1, open.length / logsAtFullCount))
    for (const { bucket, entries } of await reader.read(open, count)) {
      if (abort.signal.aborted) return
      await start(bucket, entries, groupEntries(entries), false)
    }
  }

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        await runOnce()
        failed = 0
      } catch (error) {
        if (abort.signal.aborted) return
        looked.clear()
        failed += 1
        log.warn({ cause: causeOf(error), times: failed }, 'reading the logs failed and is tried again')
        await backOff(failed, abort.signal).catch(() => undefined)
      }
    }
  }

  const running = run()
  return {
    nudge: buckets.nudge,
    async stop() {
      abort.abort()
      reader.close()
      const ended = Promise.all([running, buckets.stop()]).then(() => slots.idle())
      await within(ended, stopMs, 'stopping the drain')
        .then(() => within(retire(deps.redis, consumer, buckets.current()), retireMs, 'leaving the groups'))
        .catch((error) => log.warn({ cause: causeOf(error) }, 'the drain did not end in order'))
    },
  }
}

function condemn(entry: Recovered): Group {
  const cause = `delivered ${entry.deliveries} times, and its handling never came to an end`
  return {
    kind: 'claims',
    ruleVersion: 0,
    entries: [entry],
    claims: [],
    unreadable: [{ entry, position: -1, cause }],
  }
}

/** Leaves the groups in which nothing of ours is pending; what is pending must outlive us (case-H12). */
async function retire(redis: Redis, consumer: string, open: readonly Bucket[]): Promise<void> {
  for (const key of open.map(logKey)) {
    const pending = (await redis.xpending(key, drainGroup, '-', '+', 1, consumer)) as unknown[]
    if (pending.length === 0) await redis.xgroup('DELCONSUMER', key, drainGroup, consumer)
  }
}
