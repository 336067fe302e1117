import { setTimeout as sleep } from 'node:timers/promises'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps, Running } from '../deps.ts'
import type { Store } from '../stores/store.ts'
import { causeOf } from './failures.ts'
import { isWorthTelling, makeAlarm } from './patience.ts'

/**
 * Which logs of one store there are to drain: of every campaign that may accept, and of those that are over for as long as
 * their logs hold anything.
 */
export interface OpenBuckets extends Running {
  /** A new array whenever it changed. */
  current(): readonly Bucket[]
  /** Looks again now; resolves when it has looked. */
  refresh(): Promise<void>
  /** Has it look again soon, as after a publication. */
  nudge(): void
}

export type OpenBucketsDeps = Pick<Deps, 'db' | 'log'> & { readonly store: Pick<Store, 'name' | 'client'> }

const lookEveryMs = 1_000
/** Campaigns that were over before we looked, or ended unseen, are searched for at start and then this often. */
const sweepEveryMs = 60_000
const sweepBackMs = 600_000
const sweepPage = 500
/** A lease given just before the end has run out by then. */
const lastAcceptanceMs = limits.leaseMs + limits.clockLeewayMs

export function watchOpenBuckets(deps: OpenBucketsDeps, changed: () => void): OpenBuckets {
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  /** By log key; `closedAt` is when it was first seen to be over (performance.now()). */
  const known = new Map<string, { bucket: Bucket; closedAt?: number }>()
  let list: readonly Bucket[] = []
  let sweptAt: number | undefined

  async function look(): Promise<void> {
    const accepting = await findAccepting(deps)
    const open = new Set(accepting.map(logKey))
    for (const bucket of accepting) known.set(logKey(bucket), { bucket })
    const now = performance.now()
    for (const [key, entry] of known) if (!open.has(key)) entry.closedAt ??= now
    if (sweptAt === undefined || now - sweptAt > sweepEveryMs) {
      for (const bucket of await findLeftOvers(deps, sweptAt === undefined))
        if (!known.has(logKey(bucket))) known.set(logKey(bucket), { bucket, closedAt: now })
      sweptAt = now
    }
    await forgetDrained(deps, known, now)
    // Against what was told, not what was known: an earlier look may have failed on its way.
    if (list.length === known.size && list.every((bucket) => known.has(logKey(bucket)))) return
    list = [...known.values()].map(({ bucket }) => bucket)
    changed()
  }

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        await look()
        failed = 0
      } catch (error) {
        // What is known stays: the logs go on being drained while Postgres is away.
        failed += 1
        if (isWorthTelling(failed))
          deps.log.warn({ cause: causeOf(error), times: failed }, 'can’t look for campaigns to drain')
      }
      await alarm.wait(lookEveryMs)
    }
  }

  const running = run()
  return {
    current: () => list,
    refresh: look,
    nudge: alarm.wake,
    async stop() {
      abort.abort()
      // A query to a database that is away must not keep the process.
      await Promise.race([running, sleep(limits.coreTimeoutMs, undefined, { ref: false })])
    },
  }
}

async function findAccepting({ db, store }: OpenBucketsDeps): Promise<Bucket[]> {
  const rows = await db.issuance.sql<{ campaign_id: string; bucket: number }[]>`
    SELECT b.campaign_id, b.bucket FROM buckets b JOIN campaigns c USING (campaign_id)
    WHERE c.state IN ('ACTIVE', 'PAUSED') AND b.primed_at IS NOT NULL AND c.store = ${store.name}`
  return rows.map((row) => ({ campaignId: row.campaign_id, bucket: row.bucket }))
}

/** Buckets of campaigns that are over and whose logs hold entries: of all, or of those that ended lately. */
async function findLeftOvers({ db, store }: OpenBucketsDeps, all: boolean): Promise<Bucket[]> {
  const found: Bucket[] = []
  let after: Bucket = { campaignId: '', bucket: -1 }
  for (;;) {
    const rows = await db.issuance.sql<{ campaign_id: string; bucket: number }[]>`
      SELECT b.campaign_id, b.bucket FROM buckets b JOIN campaigns c USING (campaign_id)
      WHERE c.state IN ('ENDED', 'VOIDED') AND b.primed_at IS NOT NULL AND c.store = ${store.name}
        AND (${all} OR c.updated_at > now() - ${sweepBackMs} * interval '1 millisecond')
        AND (b.campaign_id, b.bucket) > (${after.campaignId}, ${after.bucket})
      ORDER BY b.campaign_id, b.bucket LIMIT ${sweepPage}`
    const page = rows.map((row): Bucket => ({ campaignId: row.campaign_id, bucket: row.bucket }))
    const empty = await Promise.all(page.map((bucket) => isEmpty(store, logKey(bucket))))
    found.push(...page.filter((_, i) => !empty[i]))
    if (page.length < sweepPage) return found
    after = page.at(-1)!
  }
}

async function forgetDrained(
  { store }: OpenBucketsDeps,
  known: Map<string, { bucket: Bucket; closedAt?: number }>,
  now: number,
): Promise<void> {
  for (const [key, { closedAt }] of known) {
    if (closedAt === undefined || now - closedAt < lastAcceptanceMs) continue
    if (await isEmpty(store, key)) known.delete(key)
  }
}

/** A log that can't be asked counts as one with entries: its node's absence must not hide the other logs. */
async function isEmpty({ client }: Pick<Store, 'client'>, key: string): Promise<boolean> {
  return client.xlen(key).then(
    (length) => length === 0,
    () => false,
  )
}
