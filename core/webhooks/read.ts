import { z } from '@hono/zod-openapi'
import { and, desc, eq, isNull, lt, or, sql } from 'drizzle-orm'
import {
  type WebhookEndpoint,
  webhookAttempts,
  webhookDeliveries,
  webhookEndpoints,
  webhookSecrets,
} from '../../schema/db/tables.ts'
import type { Tx } from '../command.ts'
import type { Pool } from '../db.ts'
import { messageIdOf, noEndpoint } from './shapes.ts'

type Reader = Pool['orm'] | Tx

/** @throws Refused NOT_FOUND */
export async function readEndpoint(orm: Reader, endpointId: string): Promise<WebhookEndpoint> {
  const [row] = await orm.select().from(webhookEndpoints).where(eq(webhookEndpoints.endpointId, endpointId))
  if (row === undefined) throw noEndpoint()
  return row
}

/** The present secret, while it is the one of this version: a replayed answer never shows a later one. */
export async function readSecret(
  orm: Reader,
  endpointId: string,
  version: number,
): Promise<string | undefined> {
  const [row] = await orm
    .select({ secret: webhookSecrets.secret })
    .from(webhookSecrets)
    .where(
      and(
        eq(webhookSecrets.endpointId, endpointId),
        eq(webhookSecrets.generation, version),
        isNull(webhookSecrets.expiresAt),
      ),
    )
  return row?.secret
}

export interface PageAfter {
  limit: number
  after: { at: Date; id: string } | undefined
}

/** Newest first. */
export async function listEndpoints(orm: Reader, { limit, after }: PageAfter): Promise<WebhookEndpoint[]> {
  const older =
    after &&
    or(
      lt(webhookEndpoints.createdAt, after.at),
      and(eq(webhookEndpoints.createdAt, after.at), sql`${webhookEndpoints.endpointId}::text < ${after.id}`),
    )
  return orm
    .select()
    .from(webhookEndpoints)
    .where(older)
    .orderBy(desc(webhookEndpoints.createdAt), sql`${webhookEndpoints.endpointId}::text DESC`)
    .limit(limit)
}

export const deliveryStates = ['PENDING', 'DELIVERED', 'FAILED'] as const
const instant = z.iso.datetime()

export const deliveryShape = z
  .object({
    webhook_id: z.string(),
    type: z.string(),
    state: z.enum(deliveryStates),
    attempts: z.int(),
    next_attempt_at: instant.optional(),
    created_at: instant,
    delivered_at: instant.optional(),
    last_status: z.int().optional().openapi({ description: 'HTTP status of the last attempt that got one.' }),
    last_error: z.string().optional().openapi({ description: 'Why the last attempt was none.' }),
  })
  .openapi('WebhookDelivery')

export const attemptShape = z
  .object({
    attempt: z.int(),
    at: instant,
    duration_ms: z.int(),
    status: z.int().nullable(),
    error: z.string().nullable(),
  })
  .openapi('WebhookAttempt')

export interface DeliveryRow {
  eventId: number
  type: string
  state: (typeof deliveryStates)[number]
  attempts: number
  nextAttemptAt: Date
  createdAt: Date
  deliveredAt: Date | null
  lastStatus: number | null
  lastError: string | null
}

const columns = {
  eventId: webhookDeliveries.eventId,
  type: webhookDeliveries.type,
  state: webhookDeliveries.state,
  attempts: webhookDeliveries.attempts,
  nextAttemptAt: webhookDeliveries.nextAttemptAt,
  createdAt: webhookDeliveries.createdAt,
  deliveredAt: webhookDeliveries.deliveredAt,
  lastStatus: webhookAttempts.status,
  lastError: webhookAttempts.error,
}

/** The attempt under way is not recorded yet: the last recorded one is the newest there is. */
const lastAttempt = and(
  eq(webhookAttempts.endpointId, webhookDeliveries.endpointId),
  eq(webhookAttempts.eventId, webhookDeliveries.eventId),
  sql`${webhookAttempts.attempt} = (SELECT max(a.attempt) FROM webhook_attempts a
    WHERE a.endpoint_id = ${webhookDeliveries.endpointId} AND a.event_id = ${webhookDeliveries.eventId})`,
)

/** Newest first. */
export async function listDeliveries(
  orm: Reader,
  endpointId: string,
  { limit, after, state }: PageAfter & { state: (typeof deliveryStates)[number] | undefined },
): Promise<DeliveryRow[]> {
  const afterId = after === undefined ? 0 : Number(after.id)
  const older =
    after &&
    or(
      lt(webhookDeliveries.createdAt, after.at),
      and(eq(webhookDeliveries.createdAt, after.at), lt(webhookDeliveries.eventId, afterId)),
    )
  return orm
    .select(columns)
    .from(webhookDeliveries)
    .leftJoin(webhookAttempts, lastAttempt)
    .where(
      and(
        eq(webhookDeliveries.endpointId, endpointId),
        older,
        state === undefined ? undefined : eq(webhookDeliveries.state, state),
      ),
    )
    .orderBy(desc(webhookDeliveries.createdAt), desc(webhookDeliveries.eventId))
    .limit(limit)
}

export async function listAttempts(orm: Reader, endpointId: string, eventId: number) {
  const rows = await orm
    .select()
    .from(webhookAttempts)
    .where(and(eq(webhookAttempts.endpointId, endpointId), eq(webhookAttempts.eventId, eventId)))
    .orderBy(webhookAttempts.attempt)
  return rows.map(({ attempt, at, durationMs, status, error }) => ({
    attempt,
    at: at.toISOString(),
    duration_ms: durationMs,
    status,
    error,
  }))
}

export function deliveryAnswer(row: DeliveryRow): z.infer<typeof deliveryShape> {
  return {
    webhook_id: messageIdOf(row.eventId),
    type: row.type,
    state: row.state,
    attempts: row.attempts,
    ...(row.state === 'PENDING' ? { next_attempt_at: row.nextAttemptAt.toISOString() } : {}),
    created_at: row.createdAt.toISOString(),
    ...(row.deliveredAt === null ? {} : { delivered_at: row.deliveredAt.toISOString() }),
    ...(row.lastStatus === null ? {} : { last_status: row.lastStatus }),
    ...(row.lastError === null ? {} : { last_error: row.lastError }),
  }
}
