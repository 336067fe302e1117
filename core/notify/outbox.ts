import type { Pool } from '../db.ts'
import { type OutboxEvent, overlapMs, type StreamPosition } from './event.ts'

export interface OutboxRow {
  event_id: number
  user_id: string
  request_id: string | null
  type: string
  data: string
  created_at: Date
}

export function eventOf(row: OutboxRow): OutboxEvent {
  return {
    eventId: row.event_id,
    createdAtMs: row.created_at.getTime(),
    userId: row.user_id,
    requestId: row.request_id,
    type: row.type,
    data: row.data,
  }
}

/** More than this to catch up with is told as a snapshot instead. */
const replayMax = 100

/**
 * A user's events after a position, oldest first: perhaps some that were seen before it, and never one less. Only
 * the user's own are looked at, whatever the position says (case-J6). Undefined: too many to replay.
 */
export async function eventsAfter(
  pool: Pool,
  userId: string,
  { eventId, atMs }: StreamPosition,
): Promise<OutboxEvent[] | undefined> {
  const rows = await pool.sql<OutboxRow[]>`
    SELECT event_id, user_id, request_id, type, payload::text AS data, created_at
    FROM outbox
    WHERE user_id = ${userId} AND event_id <> ${eventId} AND created_at >= ${new Date(atMs - overlapMs)}
    ORDER BY event_id LIMIT ${replayMax + 1}`
  return rows.length > replayMax ? undefined : rows.map(eventOf)
}

/** Events of many users since an instant: what was told while nobody here could hear it. */
export async function eventsSince(
  pool: Pool,
  userIds: readonly string[],
  sinceMs: number,
): Promise<OutboxEvent[]> {
  const rows = await pool.sql<OutboxRow[]>`
    SELECT event_id, user_id, request_id, type, payload::text AS data, created_at
    FROM outbox
    WHERE user_id = ANY(${[...userIds]}::text[]) AND created_at >= ${new Date(sinceMs)}
    ORDER BY event_id`
  return rows.map(eventOf)
}
