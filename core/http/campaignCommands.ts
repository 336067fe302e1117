import { z } from '@hono/zod-openapi'
import type { Context, MiddlewareHandler } from 'hono'
import { isCampaignId } from '../../schema/campaignId.ts'
import { type CampaignVerb, campaignRoles } from '../campaigns/permissions.ts'
import type { CampaignAnswer } from '../campaigns/shapes.ts'
import { authorise } from '../command.ts'
import type { Deps } from '../deps.ts'
import { idempotencyHeader, ifMatchHeader } from './shapes.ts'
import type { HttpEnv } from './types.ts'

/** What routes of commands on campaigns share. */

export const about = { tags: ['Campaigns'], security: [{ login: [] }] }
export const idParam = z.object({ id: z.string().openapi({ param: { name: 'id', in: 'path' } }) })

/** Optional here, so that what is missing is told as PRECONDITION_REQUIRED. */
export const commandHeaders = z.object({
  'Idempotency-Key': idempotencyHeader.optional(),
  'If-Match': ifMatchHeader.optional(),
})

/** The role comes first: who may not do it is refused, and recorded, whatever else is wrong with the request. */
export function permit(
  deps: Deps,
  verb: CampaignVerb | 'create' | 'increase' | 'pace' | 'draw',
): MiddlewareHandler<HttpEnv> {
  return async (c: Context<HttpEnv>, next) => {
    const id = c.req.param('id') ?? ''
    const target = isCampaignId(id, deps.keyrings.campaignId) ? id : ''
    await authorise(deps, c.get('caller'), { action: `campaign.${verb}`, target, roles: campaignRoles[verb] })
    await next()
  }
}

export function etagOf(answer: CampaignAnswer): string {
  return `"${answer.version}"`
}

export function answerHeaders(answer: CampaignAnswer, replayed: boolean): Record<string, string> {
  return { ETag: etagOf(answer), ...(replayed ? { 'Idempotency-Replayed': 'true' } : {}) }
}
