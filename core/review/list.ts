import { z } from '@hono/zod-openapi'
import type { Pool } from '../db.ts'

/** What waits for a person: claims that were held, and compensations that Redis contradicts. */
export const reviewShape = z
  .object({
    request_id: z.string(),
    kind: z.enum(['claim', 'compensation']),
    campaign_id: z.string(),
    user_id: z.string(),
    cause: z.string(),
    state: z.enum(['OPEN', 'DECIDED']),
    opened_at: z.iso.datetime(),
    due_at: z.iso
      .datetime()
      .nullable()
      .openapi({ description: 'Until then a person may decide; null: there is no timer.' }),
    due_verdict: z.enum(['issue', 'reject']).nullable(),
    decided_by: z.string().nullable(),
  })
  .openapi('Review')
export type Review = z.infer<typeof reviewShape>

export interface ReviewRow extends Omit<Review, 'opened_at' | 'due_at'> {
  opened_at: Date
  due_at: Date | null
}

export interface ReviewPage {
  limit: number
  after: { at: Date; id: string } | undefined
  state: Review['state']
  campaignId: string | undefined
}

/** Oldest first, by (opened_at, request_id). */
export function listReviews({ sql }: Pool, page: ReviewPage): Promise<ReviewRow[]> {
  const { after, state, campaignId } = page
  const open = state === 'OPEN'
  return sql<ReviewRow[]>`
    SELECT * FROM (
      SELECT request_id, 'claim' AS kind, campaign_id, user_id, cause, ${state} AS state,
        date_trunc('milliseconds', opened_at) AS opened_at, due_at, due_verdict, decided_by
      FROM reviews WHERE (state = 'OPEN') = ${open}
      UNION ALL
      SELECT request_id, 'compensation', campaign_id, user_id, reason, 'OPEN',
        date_trunc('milliseconds', created_at), NULL, NULL, NULL
      FROM compensations WHERE state = 'REVIEW' AND ${open}
    ) AS shown
    WHERE true
      ${campaignId === undefined ? sql`` : sql`AND campaign_id = ${campaignId}`}
      ${after === undefined ? sql`` : sql`AND (opened_at, request_id::text) > (${after.at}, ${after.id})`}
    ORDER BY opened_at, request_id::text
    LIMIT ${page.limit}`
}

export function reviewAnswer(row: ReviewRow): Review {
  return { ...row, opened_at: row.opened_at.toISOString(), due_at: row.due_at?.toISOString() ?? null }
}
