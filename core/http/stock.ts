import { createRoute, z } from '@hono/zod-openapi'
import { limits } from '../../schema/limits.ts'
import { paceShape } from '../../schema/rules.ts'
import { increaseCampaign } from '../campaigns/increase.ts'
import { paceCampaign } from '../campaigns/pace.ts'
import { campaignShape, lineOf } from '../campaigns/shapes.ts'
import type { Deps } from '../deps.ts'
import { campaignIdOf, commandContext, expectedVersion } from './admin.ts'
import { about, answerHeaders, commandHeaders, idParam, permit } from './campaignCommands.ts'
import { json, problems } from './shapes.ts'
import type { CoreApp } from './types.ts'

/** Commands on a running campaign's stock and speed. */

const refusals = problems(400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503)
const reason = lineOf(500)

export function registerStockRoutes(app: CoreApp, deps: Deps): void {
  const increase = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/campaigns/{id}/increases',
    summary: 'Add coupons to an active or paused campaign',
    description:
      'By an approver other than its maker. People who were told SOLD_OUT may claim again at once.',
    middleware: [permit(deps, 'increase')],
    request: {
      params: idParam,
      headers: commandHeaders,
      body: {
        ...json(
          z
            .object({
              amount: z
                .int({ error: 'give a whole number' })
                .min(1, 'a quota only grows: give 1 or more')
                .max(limits.campaignQuotaMax),
              reason: reason.openapi({ description: 'Why; kept in the audit log.' }),
            })
            .strict(),
          'How many, and why',
        ),
        required: true,
      },
    },
    responses: { 200: json(campaignShape, 'The campaign with its new quota'), ...refusals },
  })
  app.openapi(increase, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const ctx = commandContext(c, deps)
    const input = { campaignId, expectedVersion: expectedVersion(c), ...c.req.valid('json') }
    const { answer, replayed } = await increaseCampaign(ctx, input)
    return c.json(answer, 200, answerHeaders(answer, replayed))
  })

  const pace = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/campaigns/{id}/pace',
    summary: 'Set how fast it accepts',
    middleware: [permit(deps, 'pace')],
    request: {
      params: idParam,
      headers: commandHeaders,
      body: {
        ...json(
          z
            .object({
              pace: paceShape
                .nullable()
                .openapi({ description: 'Of all buckets together; null: as fast as it goes.' }),
              reason: reason.optional(),
            })
            .strict(),
          'The pace',
        ),
        required: true,
      },
    },
    responses: { 200: json(campaignShape, 'The campaign, and how far its gates know'), ...refusals },
  })
  app.openapi(pace, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const ctx = commandContext(c, deps)
    const { pace: wanted, reason: why } = c.req.valid('json')
    const input = { campaignId, expectedVersion: expectedVersion(c), pace: wanted, reason: why }
    const { answer, replayed } = await paceCampaign(ctx, input)
    return c.json(answer, 200, answerHeaders(answer, replayed))
  })
}
