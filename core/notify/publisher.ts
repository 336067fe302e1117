import { Counter } from 'prom-client'
import { resultsChannel } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import { causeOf } from '../claim/failures.ts'
import { arrayOf, type Tx } from '../claim/issue.sql.ts'
import { backOff, isWorthTelling, makeAlarm, within } from '../claim/patience.ts'
import type { Deps, Running } from '../deps.ts'
import { encodeEvents, type OutboxEvent } from './event.ts'
import { eventOf, type OutboxRow } from './outbox.ts'

export type PublisherDeps = Pick<Deps, 'db' | 'redis' | 'log' | 'clock' | 'metrics'>

/** Tells what stands in the outbox to every core process (IS9). */
export interface Publisher extends Running {
  /** There are new events: look now, not at the next poll. */
  wake(): void
}

/** Events of one message: a few hundred bytes each, far below what any Redis takes at once. */
const messageEventsMax = 500
/** Told events are kept for resuming streams as long as a ticket opens one. */
const keptMs = limits.ticketLifetimeMs
const sweepEveryMs = 60_000
const sweepMax = 10_000
const stopMs = 5_000
/** Batches that are told and not marked yet: each has a connection of its own. */
const markingMax = 2

export function startPublisher(deps: PublisherDeps): Publisher {
  const log = deps.log.child({ part: 'publisher' })
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  const published = new Counter({
    name: 'tidegate_events_published_total',
    help: 'Events of the outbox told to the core’s processes.',
    registers: [deps.metrics],
  })
  let sweepDueAt = 0

  const marking = new Set<Promise<void>>()
  /** Why the last marking failed; its events will be told again. */
  let failure: { error: unknown } | undefined

  /** Goes on as soon as a batch is told: marking it costs far more, and nobody waits for that. */
  async function tellBatch(): Promise<number> {
    if (marking.size >= markingMax) await Promise.race(marking)
    if (failure !== undefined) {
      const { error } = failure
      failure = undefined
      throw error
    }
    const told = Promise.withResolvers<number>()
    let isTold = false
    const flight = publishOnce(deps, (count) => {
      isTold = true
      told.resolve(count)
    })
      .then((count) => published.inc(count))
      .catch((error) => {
        if (isTold) failure = { error }
        else told.reject(error)
      })
      .finally(() => marking.delete(flight))
    marking.add(flight)
    return told.promise
  }

  async function step(): Promise<number> {
    const count = await tellBatch()
    if (performance.now() >= sweepDueAt) {
      sweepDueAt = performance.now() + sweepEveryMs
      await sweepOutbox(deps)
    }
    return count
  }

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        const count = await step()
        failed = 0
        if (count < limits.outboxBatchMax) await alarm.wait(limits.outboxPollMs)
      } catch (error) {
        failed += 1
        if (isWorthTelling(failed))
          log.warn({ cause: causeOf(error), times: failed }, 'publishing failed and is tried again')
        await backOff(failed, abort.signal).catch(() => undefined)
      }
    }
    await Promise.all(marking)
  }

  const running = run()
  return {
    wake: alarm.wake,
    async stop() {
      abort.abort()
      await within(running, stopMs, 'stopping the publisher').catch((error) =>
        log.warn({ cause: causeOf(error) }, 'the publisher did not end in order'),
      )
    },
  }
}

/**
 * Tells one batch. Told and marked in one transaction, in this order: when telling fails nothing is marked, and when
 * marking fails it is told again. Several processes may do this at once: each takes rows that no other has.
 * @param onTold hears how many there were once they are told; they are not marked yet.
 * @returns the same, once they are marked.
 */
export async function publishOnce(
  { db, redis, clock }: PublisherDeps,
  onTold: (count: number) => void = () => undefined,
): Promise<number> {
  return db.admin.transaction(async (tx) => {
    const events = await lockUnpublished(tx)
    for (let at = 0; at < events.length; at += messageEventsMax)
      await redis.publish(resultsChannel, encodeEvents(events.slice(at, at + messageEventsMax)))
    onTold(events.length)
    if (events.length > 0) await markPublished(tx, events, new Date(clock()))
    return events.length
  })
}

async function lockUnpublished(tx: Tx): Promise<OutboxEvent[]> {
  const rows = await tx<OutboxRow[]>`
    SELECT event_id, user_id, request_id, type, payload::text AS data, created_at
    FROM outbox WHERE published_at IS NULL
    ORDER BY event_id LIMIT ${limits.outboxBatchMax} FOR UPDATE SKIP LOCKED`
  return rows.map(eventOf)
}

/**
 * Marks a batch and plans its deliveries in one statement: what is told to streams is also on its way to webhooks and
 * browsers, or will be told again. The signed text is made here once, for all attempts.
 */
async function markPublished(tx: Tx, events: readonly OutboxEvent[], now: Date): Promise<void> {
  const giveUpAt = new Date(now.getTime() + limits.deliveryGiveUpMs)
  await tx`
    WITH told AS (
      UPDATE outbox SET published_at = ${now}
      WHERE event_id = ANY(${arrayOf(events.map(({ eventId }) => eventId))}::bigint[])
      RETURNING event_id, user_id, type, payload, created_at
    ), pushes AS (
      INSERT INTO push_deliveries (user_id, subscription_id, event_id, body, next_attempt_at, give_up_at)
      SELECT user_id, s.subscription_id, t.event_id, (jsonb_build_object('type', t.type) || t.payload)::text,
        ${now}, ${giveUpAt}
      FROM told t JOIN push_subscriptions s USING (user_id)
      WHERE t.type IN ('claim.delivered', 'claim.rejected')
      ON CONFLICT DO NOTHING
    )
    INSERT INTO webhook_deliveries (endpoint_id, event_id, type, body, next_attempt_at, give_up_at, created_at)
    SELECT e.endpoint_id, t.event_id, t.type, jsonb_build_object(
        'type', t.type,
        'timestamp', to_char(t.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
        'data', t.payload || jsonb_build_object('user_id', t.user_id))::text,
      ${now}, ${giveUpAt}, ${now}
    FROM told t CROSS JOIN webhook_endpoints e
    WHERE e.state = 'ENABLED' AND (e.event_types = '{}' OR t.type = ANY(e.event_types))
    ON CONFLICT DO NOTHING`
}

/** Only the oldest are looked at: numbers follow time closely enough, and the rest need not be read to be kept. */
export async function sweepOutbox({ db, clock }: Pick<PublisherDeps, 'db' | 'clock'>): Promise<void> {
  await db.admin.sql`
    DELETE FROM outbox WHERE event_id = ANY(ARRAY(
      SELECT event_id FROM (SELECT * FROM outbox ORDER BY event_id LIMIT ${sweepMax}) AS oldest
      WHERE published_at IS NOT NULL AND created_at < ${new Date(clock() - keptMs)}))`
}
