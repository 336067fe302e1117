import { randomUUID } from 'node:crypto'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'

/** The statements of delivering. */

export interface Due {
  endpoint_id: string
  event_id: number
  url: string
  body: string
  /** This attempt's number, from 1. */
  attempt: number
  give_up_at: Date
  /** Those that are valid now, the present one first. */
  secrets: string[]
}

/** After many rotations in a day the oldest overlaps end early: a header has to stay short. */
const secretsMax = 3

/**
 * Takes what is due, a share for each endpoint, so that a slow or large one keeps no other waiting. Taking moves the
 * next attempt past the lease: of several processes one has it, and it comes back by itself if that one dies.
 */
export async function takeDue(
  { db, clock }: Pick<Deps, 'db' | 'clock'>,
  free: number,
  busy: ReadonlyMap<string, number>,
): Promise<Due[]> {
  const now = new Date(clock())
  const lease = new Date(now.getTime() + limits.deliveryLeaseMs)
  return db.admin.sql<Due[]>`
    WITH shares AS (
      SELECT e.endpoint_id, greatest(0, CASE WHEN e.failing_since IS NULL
          THEN ${limits.deliveriesPerEndpointMax}::int ELSE ${limits.deliveriesWhileFailingMax}::int END
        - coalesce(b.count, 0)) AS share
      FROM webhook_endpoints e
      LEFT JOIN unnest(${[...busy.keys()]}::uuid[], ${[...busy.values()]}::int[]) AS b(endpoint_id, count)
        USING (endpoint_id)
      WHERE e.state = 'ENABLED'
    ), due AS (
      SELECT d.endpoint_id, d.event_id
      FROM shares s CROSS JOIN LATERAL (
        SELECT w.endpoint_id, w.event_id FROM webhook_deliveries w
        WHERE w.endpoint_id = s.endpoint_id AND w.state = 'PENDING' AND w.next_attempt_at <= ${now}
        ORDER BY w.next_attempt_at LIMIT s.share FOR UPDATE SKIP LOCKED
      ) d
      ORDER BY random() LIMIT ${free}::int
    )
    UPDATE webhook_deliveries w
    SET attempts = w.attempts + 1, next_attempt_at = ${lease}
    FROM due JOIN webhook_endpoints e USING (endpoint_id)
    WHERE w.endpoint_id = due.endpoint_id AND w.event_id = due.event_id
    RETURNING w.endpoint_id, w.event_id, e.url, w.body, w.attempts AS attempt, w.give_up_at, ARRAY(
      SELECT s.secret FROM webhook_secrets s
      WHERE s.endpoint_id = w.endpoint_id AND (s.expires_at IS NULL OR s.expires_at > ${now})
      ORDER BY s.generation DESC LIMIT ${secretsMax}) AS secrets`
}

export interface Attempted {
  due: Due
  at: Date
  durationMs: number
  status: number | null
}

/** It was taken; whatever the endpoint failed before is forgiven. */
export async function recordDelivered({ db }: Pick<Deps, 'db'>, attempted: Attempted): Promise<void> {
  const { due, at, durationMs, status } = attempted
  const now = new Date(at.getTime() + durationMs)
  await db.admin.sql`
    WITH attempt AS (
      INSERT INTO webhook_attempts (endpoint_id, event_id, attempt, at, duration_ms, status)
      VALUES (${due.endpoint_id}, ${due.event_id}, ${due.attempt}, ${at}, ${durationMs}, ${status})
      ON CONFLICT DO NOTHING
    ), delivered AS (
      UPDATE webhook_deliveries SET state = 'DELIVERED', delivered_at = ${now}
      WHERE endpoint_id = ${due.endpoint_id} AND event_id = ${due.event_id}
    )
    UPDATE webhook_endpoints SET failing_since = NULL
    WHERE endpoint_id = ${due.endpoint_id} AND failing_since IS NOT NULL AND state = 'ENABLED'`
}

/**
 * It was not taken. @param nextMs of the next attempt; undefined: there is none, the delivery has failed.
 * @returns since when the endpoint fails.
 */
export async function recordFailed(
  { db }: Pick<Deps, 'db'>,
  { due, at, durationMs, status }: Attempted,
  error: string,
  nextMs: number | undefined,
): Promise<Date> {
  const now = new Date(at.getTime() + durationMs)
  const [row] = await db.admin.sql<{ failing_since: Date }[]>`
    WITH attempt AS (
      INSERT INTO webhook_attempts (endpoint_id, event_id, attempt, at, duration_ms, status, error)
      VALUES (${due.endpoint_id}, ${due.event_id}, ${due.attempt}, ${at}, ${durationMs}, ${status}, ${error})
      ON CONFLICT DO NOTHING
    ), failed AS (
      -- Not when another attempt was taken meanwhile, or is under way: its outcome is the newer one.
      UPDATE webhook_deliveries
      SET state = ${nextMs === undefined ? 'FAILED' : 'PENDING'}, next_attempt_at = ${new Date(nextMs ?? now)}
      WHERE endpoint_id = ${due.endpoint_id} AND event_id = ${due.event_id} AND state = 'PENDING'
        AND attempts = ${due.attempt}
    )
    UPDATE webhook_endpoints SET failing_since = coalesce(failing_since, ${at})
    WHERE endpoint_id = ${due.endpoint_id}
    RETURNING failing_since`
  return row!.failing_since
}

/** Disables an endpoint for what it did, as an audited act of ours. @returns whether it was enabled until now. */
export async function disableByItself(
  { db, clock }: Pick<Deps, 'db' | 'clock'>,
  endpointId: string,
  reason: 'failing' | 'gone',
): Promise<boolean> {
  const now = new Date(clock())
  return db.admin.transaction(async (tx) => {
    const rows = await tx<{ version: number; failing_since: Date | null }[]>`
      UPDATE webhook_endpoints
      SET state = 'DISABLED', disabled_reason = ${reason}, version = version + 1, updated_at = ${now}
      WHERE endpoint_id = ${endpointId} AND state = 'ENABLED'
      RETURNING version, failing_since`
    if (rows.length === 0) return false
    const after = { state: 'DISABLED', disabled_reason: reason, ...rows[0] }
    await tx`
      INSERT INTO audit_log (audit_id, at, actor, role, action, target, outcome, reason, before, after)
      VALUES (${randomUUID()}, ${now}, 'tidegate', 'none', 'webhook.disable', ${endpointId}, 'done', ${reason},
        '{"state":"ENABLED"}', ${JSON.stringify(after)}::text::jsonb)`
    return true
  })
}

const sweepMax = 10_000

/** Forgets old deliveries and their attempts; also those that wait for an endpoint which nobody enables again. */
export async function sweepDeliveries({ db, clock }: Pick<Deps, 'db' | 'clock'>): Promise<void> {
  const before = new Date(clock() - limits.deliveryKeptMs)
  await db.admin.sql`
    DELETE FROM webhook_deliveries w USING (
      SELECT endpoint_id, event_id FROM webhook_deliveries
      WHERE created_at < ${before} AND give_up_at < ${before} LIMIT ${sweepMax}
    ) old
    WHERE w.endpoint_id = old.endpoint_id AND w.event_id = old.event_id`
}
