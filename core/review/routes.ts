import { createRoute, z } from '@hono/zod-openapi'
import { isRequestId } from '../../schema/acceptance.ts'
import { commandShape } from '../campaigns/shapes.ts'
import { causeOf } from '../claim/failures.ts'
import { openRuleBook } from '../claim/rules.ts'
import { authorise } from '../command.ts'
import type { Deps } from '../deps.ts'
import { commandContext, requireRole } from '../http/admin.ts'
import { decodeCursor, encodeCursor, pageOf, pageQuery, pageShape } from '../http/pages.ts'
import { idempotencyHeader, json, problems } from '../http/shapes.ts'
import type { CoreApp } from '../http/types.ts'
import { Refused } from '../refusal.ts'
import { decideReview, reviewRoles } from './command.ts'
import { listReviews, reviewAnswer, reviewShape } from './list.ts'
import { tellDecided } from './tell.ts'

const about = { tags: ['Reviews'], security: [{ login: [] }] }

const listRoute = createRoute({
  ...about,
  method: 'get',
  path: '/admin/v1/reviews',
  summary: 'What waits for a person’s decision, oldest first',
  request: {
    query: z.object({
      ...pageQuery,
      state: z.enum(['OPEN', 'DECIDED']).default('OPEN'),
      campaign_id: z.string().max(128).optional(),
    }),
  },
  responses: { 200: json(pageShape(reviewShape), 'A page of reviews'), ...problems(400, 401, 403, 503) },
})

const decisionShape = z
  .object({
    request_id: z.string(),
    campaign_id: z.string().optional(),
    status: z.enum(['DELIVERED', 'REJECTED']).optional(),
    coupon_id: z.string().optional(),
    reason: z.string().optional(),
    compensation: z
      .enum(['PENDING'])
      .optional()
      .openapi({ description: 'Its stock is to be returned again.' }),
  })
  .openapi('ReviewDecision')

const decideRoute = createRoute({
  ...about,
  method: 'post',
  path: '/admin/v1/reviews/{request_id}/{verdict}',
  summary: 'Decide: issue it, reject it, or let the rules decide again (retry)',
  description:
    'A claim is decided once; its user is told. issue goes over a pause of the campaign, and never over its quota or a user’s limit. retry of a compensation asks Redis again.',
  request: {
    params: z.object({
      request_id: z.string().openapi({ param: { name: 'request_id', in: 'path' } }),
      verdict: z
        .enum(['issue', 'reject', 'retry'])
        .openapi({ param: { name: 'verdict', in: 'path' }, example: 'issue' }),
    }),
    headers: z.object({ 'Idempotency-Key': idempotencyHeader.optional() }),
    body: json(commandShape, 'Why'),
  },
  responses: {
    200: json(decisionShape, 'What became of it'),
    ...problems(400, 401, 403, 404, 409, 413, 415, 422, 428, 503),
  },
})

/** @param onDecided told after each decision: events and debts are there. */
export function registerReviewRoutes(app: CoreApp, deps: Deps, onDecided: () => void): void {
  const ruleBook = openRuleBook(deps.db.admin)

  app.openapi(listRoute, async (c) => {
    requireRole(c, reviewRoles.read)
    const { limit, cursor, state, campaign_id: campaignId } = c.req.valid('query')
    const after = cursor === undefined ? undefined : decodeCursor(cursor)
    const rows = await listReviews(deps.db.admin, { limit: limit + 1, after, state, campaignId })
    const page = pageOf(rows, limit, reviewAnswer, (row) => encodeCursor(row.opened_at, row.request_id))
    return c.json(page, 200)
  })

  app.use(decideRoute.getRoutingPath(), async (c, next) => {
    const verdict = c.req.param('verdict') ?? ''
    await authorise(deps, c.get('caller'), {
      action: `review.${verdict}`.slice(0, 40),
      target: (c.req.param('request_id') ?? '').slice(0, 128),
      roles: reviewRoles.decide,
    })
    await next()
  })
  app.openapi(decideRoute, async (c) => {
    const { request_id: requestId, verdict } = c.req.valid('param')
    if (!isRequestId(requestId)) throw new Refused('CLAIM_NOT_FOUND')
    const ctx = commandContext(c, deps)
    const input = { requestId, verdict, reason: c.req.valid('json').reason }
    const { answer, replayed } = await decideReview(ctx, ruleBook, input)
    // The decision stands; where Redis can't be told now, the keeper's next round does it.
    await tellDecided(deps, requestId).catch((error: unknown) =>
      deps.log.warn(
        { cause: causeOf(error), request_id: requestId },
        'Redis will be told of a decision later',
      ),
    )
    onDecided()
    return c.json(answer, 200, replayed ? { 'Idempotency-Replayed': 'true' } : {})
  })
}
