import { Counter } from 'prom-client'
import { resultsChannel } from '../../lua/keys.ts'
import { limits } from '../../schema/limits.ts'
import { causeOf } from '../claim/failures.ts'
import type { Tx } from '../claim/issue.sql.ts'
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

  async function step(): Promise<number> {
    const count = await publishOnce(deps)
    published.inc(count)
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
 * Tells one batch. Marked and told in one transaction that commits last: when telling fails nothing is marked, and
 * when the commit fails it is told again. Several processes may do this at once: each takes rows that no other has.
 * @returns how many events it told.
 */
export async function publishOnce({ db, redis, clock }: PublisherDeps): Promise<number> {
  return db.admin.transaction(async (tx) => {
    const events = await takeUnpublished(tx, new Date(clock()))
    for (let at = 0; at < events.length; at += messageEventsMax)
      await redis.publish(resultsChannel, encodeEvents(events.slice(at, at + messageEventsMax)))
    return events.length
  })
}

/**
 * Marks a batch as told and plans its deliveries in one statement: what is told to streams is also on its way to
 * webhooks and browsers, or neither is. The signed text is made here once, for all attempts.
 */
async function takeUnpublished(tx: Tx, now: Date): Promise<OutboxEvent[]> {
  const giveUpAt = new Date(now.getTime() + limits.deliveryGiveUpMs)
  const rows = await tx<OutboxRow[]>`
    WITH told AS (
      UPDATE outbox SET published_at = ${now}
      WHERE event_id = ANY(ARRAY(
        SELECT event_id FROM outbox WHERE published_at IS NULL
        ORDER BY event_id LIMIT ${limits.outboxBatchMax} FOR UPDATE SKIP LOCKED))
      RETURNING event_id, user_id, request_id, type, payload, created_at
    ), webhooks AS (
      INSERT INTO webhook_deliveries (endpoint_id, event_id, type, body, next_attempt_at, give_up_at, created_at)
      SELECT e.endpoint_id, t.event_id, t.type, jsonb_build_object(
          'type', t.type,
          'timestamp', to_char(t.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
          'data', t.payload || jsonb_build_object('user_id', t.user_id))::text,
        ${now}, ${giveUpAt}, ${now}
      FROM told t CROSS JOIN webhook_endpoints e
      WHERE e.state = 'ENABLED' AND (e.event_types = '{}' OR t.type = ANY(e.event_types))
      ON CONFLICT DO NOTHING
    ), pushes AS (
      INSERT INTO push_deliveries (user_id, subscription_id, event_id, body, next_attempt_at, give_up_at)
      SELECT user_id, s.subscription_id, t.event_id, (jsonb_build_object('type', t.type) || t.payload)::text,
        ${now}, ${giveUpAt}
      FROM told t JOIN push_subscriptions s USING (user_id)
      WHERE t.type IN ('claim.delivered', 'claim.rejected')
      ON CONFLICT DO NOTHING
    )
    SELECT event_id, user_id, request_id, type, payload::text AS data, created_at FROM told`
  return rows.map(eventOf).sort((a, b) => a.eventId - b.eventId)
}

/** Only the oldest are looked at: numbers follow time closely enough, and the rest need not be read to be kept. */
export async function sweepOutbox({ db, clock }: Pick<PublisherDeps, 'db' | 'clock'>): Promise<void> {
  await db.admin.sql`
    DELETE FROM outbox WHERE event_id = ANY(ARRAY(
      SELECT event_id FROM (SELECT * FROM outbox ORDER BY event_id LIMIT ${sweepMax}) AS oldest
      WHERE published_at IS NOT NULL AND created_at < ${new Date(clock() - keptMs)}))`
}
