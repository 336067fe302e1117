import { createRoute, z } from '@hono/zod-openapi'
import { readBallot } from '../ballot/record.ts'
import { drawBallot } from '../campaigns/draw.ts'
import { findCampaign } from '../campaigns/read.ts'
import { campaignShape, commandShape } from '../campaigns/shapes.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { campaignIdOf, commandContext, expectedVersion } from './admin.ts'
import { about, answerHeaders, commandHeaders, idParam, permit } from './campaignCommands.ts'
import { json, problems } from './shapes.ts'
import type { CoreApp } from './types.ts'

const hex = z.string()
const ballotShape = z
  .discriminatedUnion('state', [
    z.object({ state: z.enum(['OPEN', 'CANCELLED']), campaign_id: z.string(), seed_hash: hex }),
    z.object({
      state: z.enum(['DRAWN', 'SETTLED']),
      campaign_id: z.string(),
      seed_hash: hex,
      seed: hex.openapi({ description: 'Its hash was published before the window opened.' }),
      quota: z.int(),
      drawn_at: z.string(),
      entrants: z.array(hex).openapi({
        description: 'SHA-256 of `tidegate-ballot-entrant:CAMPAIGN:USER`, in ASCII order.',
      }),
      winners: z.array(hex).openapi({
        description: 'Those with the lowest HMAC-SHA-256 of the entrant under the seed, in order.',
      }),
    }),
  ])
  .openapi('Ballot')

/** What was drawn stays as it is; before that anyone may look again soon. */
const openMaxAgeS = 5
const drawnMaxAgeS = 60

export function registerBallotRoutes(app: CoreApp, deps: Deps, onDrawn: () => void): void {
  const show = createRoute({
    tags: ['Ballots'],
    method: 'get',
    path: '/v1/campaigns/{id}/ballot',
    summary: 'A ballot, with all that anyone needs to run its draw again',
    request: { params: idParam },
    responses: { 200: json(ballotShape, 'The ballot; its seed only after the draw'), ...problems(404) },
  })
  app.openapi(show, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const pool = deps.db.query
    const [found, ballot] = await Promise.all([
      findCampaign(pool.orm, campaignId),
      readBallot(pool, campaignId),
    ])
    if (found === undefined || found.campaign.approvedBy === null) throw new Refused('CAMPAIGN_NOT_FOUND')
    if (ballot === undefined)
      throw new Refused('NOT_FOUND', { detail: 'This campaign has no ballot, or is not published yet.' })
    const maxAge = ballot.state === 'DRAWN' || ballot.state === 'SETTLED' ? drawnMaxAgeS : openMaxAgeS
    return c.json(ballot, 200, { 'Cache-Control': `public, max-age=${maxAge}` })
  })

  const draw = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/campaigns/{id}/draw',
    summary: 'Draw a ballot whose window is over; without it, it is drawn a minute later',
    middleware: [permit(deps, 'draw')],
    request: { params: idParam, headers: commandHeaders, body: json(commandShape, 'Why') },
    responses: {
      200: json(campaignShape, 'The campaign; results follow in the background'),
      ...problems(400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(draw, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const ctx = commandContext(c, deps)
    const { reason } = c.req.valid('json')
    const input = { campaignId, expectedVersion: expectedVersion(c), reason }
    const { answer, replayed } = await drawBallot(ctx, input)
    onDrawn()
    return c.json(answer, 200, answerHeaders(answer, replayed))
  })
}
