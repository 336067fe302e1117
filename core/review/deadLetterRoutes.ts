import { createRoute, z } from '@hono/zod-openapi'
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
import { reviewRoles } from './command.ts'
import { closeDeadLetter, deadLetterAnswer, deadLetterShape, listDeadLetters } from './deadLetters.ts'
import { tellDecided } from './tell.ts'

const about = { tags: ['Reviews'], security: [{ login: [] }] }

const listRoute = createRoute({
  ...about,
  method: 'get',
  path: '/admin/v1/dead-letters',
  summary: 'Claims that could not be issued, with cause and original fields, oldest first',
  request: {
    query: z.object({
      ...pageQuery,
      state: z.enum(['OPEN', 'REPLAYED', 'DISCARDED']).default('OPEN'),
      campaign_id: z.string().max(128).optional(),
    }),
  },
  responses: { 200: json(pageShape(deadLetterShape), 'A page of them'), ...problems(400, 401, 403, 503) },
})

const closeRoute = createRoute({
  ...about,
  method: 'post',
  path: '/admin/v1/dead-letters/{id}/{verb}',
  summary: 'Issue what it holds as if it came from the log (replay), or put it away (discard)',
  description: 'A letter in which a claim can be read is not discarded: its user was told of an acceptance.',
  request: {
    params: z.object({
      id: z.string().openapi({ param: { name: 'id', in: 'path' } }),
      verb: z.enum(['replay', 'discard']).openapi({ param: { name: 'verb', in: 'path' }, example: 'replay' }),
    }),
    headers: z.object({ 'Idempotency-Key': idempotencyHeader.optional() }),
    body: json(commandShape, 'Why'),
  },
  responses: {
    200: json(
      z
        .object({
          id: z.string(),
          state: z.enum(['REPLAYED', 'DISCARDED']),
          issued: z.int().openapi({ description: 'Coupons that this made.' }),
          rejected: z.int(),
          claims: z.array(z.object({ user_id: z.string(), request_id: z.string() })),
        })
        .openapi('DeadLetterOutcome'),
      'What became of it',
    ),
    ...problems(400, 401, 403, 404, 409, 413, 415, 422, 428, 503),
  },
})

/** @param onReplayed told after each: events and debts may be there. */
export function registerDeadLetterRoutes(app: CoreApp, deps: Deps, onReplayed: () => void): void {
  const ruleBook = openRuleBook(deps.db.admin)

  app.openapi(listRoute, async (c) => {
    requireRole(c, reviewRoles.read)
    const { limit, cursor, state, campaign_id: campaignId } = c.req.valid('query')
    const after = cursor === undefined ? undefined : decodeCursor(cursor)
    const rows = await listDeadLetters(deps.db.admin, { limit: limit + 1, after, state, campaignId })
    const page = pageOf(rows, limit, deadLetterAnswer, (row) => encodeCursor(row.created_at, row.id))
    return c.json(page, 200)
  })

  app.use(closeRoute.getRoutingPath(), async (c, next) => {
    await authorise(deps, c.get('caller'), {
      action: `dead_letter.${c.req.param('verb') ?? ''}`.slice(0, 40),
      target: (c.req.param('id') ?? '').slice(0, 128),
      roles: reviewRoles.decide,
    })
    await next()
  })
  app.openapi(closeRoute, async (c) => {
    const { id, verb } = c.req.valid('param')
    if (!z.uuid().safeParse(id).success)
      throw new Refused('NOT_FOUND', { detail: 'There is no such dead letter.' })
    const input = { id, verb, reason: c.req.valid('json').reason }
    const { answer, replayed } = await closeDeadLetter(commandContext(c, deps), ruleBook, input)
    // It stands in the ledger; where Redis can't be told now, the reviews' keeper does it.
    await tellDecided(deps).catch((error: unknown) =>
      deps.log.warn({ cause: causeOf(error), dead_letter_id: id }, 'Redis will be told of a replay later'),
    )
    onReplayed()
    return c.json(answer, 200, replayed ? { 'Idempotency-Replayed': 'true' } : {})
  })
}
