import { z } from '@hono/zod-openapi'
import { and, desc, eq, lt, or } from 'drizzle-orm'
import { auditLog } from '../schema/db/tables.ts'
import type { Pool } from './db.ts'

/** Who did what to what, why, and what it was before and after; refused attempts too. */
export const auditRowShape = z
  .object({
    id: z.string(),
    at: z.string(),
    actor: z.string(),
    role: z.string(),
    action: z.string(),
    target: z.string(),
    outcome: z.enum(['done', 'refused']),
    reason: z.string().nullable(),
    before: z.unknown(),
    after: z.unknown(),
  })
  .openapi('AuditRow')

type AuditRow = typeof auditLog.$inferSelect

export interface AuditPage {
  limit: number
  after: { at: Date; id: string } | undefined
  target: string | undefined
  actor: string | undefined
  outcome: 'done' | 'refused' | undefined
}

/** Newest first. */
export async function readAudit({ orm }: Pool, page: AuditPage): Promise<AuditRow[]> {
  const { after, target, actor, outcome } = page
  const older =
    after && or(lt(auditLog.at, after.at), and(eq(auditLog.at, after.at), lt(auditLog.auditId, after.id)))
  return orm
    .select()
    .from(auditLog)
    .where(
      and(
        older,
        target === undefined ? undefined : eq(auditLog.target, target),
        actor === undefined ? undefined : eq(auditLog.actor, actor),
        outcome === undefined ? undefined : eq(auditLog.outcome, outcome),
      ),
    )
    .orderBy(desc(auditLog.at), desc(auditLog.auditId))
    .limit(page.limit)
}

export function auditAnswer(row: AuditRow): z.infer<typeof auditRowShape> {
  const { auditId, at, ...rest } = row
  return { id: auditId, at: at.toISOString(), ...rest }
}
