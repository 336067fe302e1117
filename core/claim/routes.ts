import type { ServerResponse } from 'node:http'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import { pageQuery, pageShape } from '../http/pages.ts'
import { json, problems } from '../http/shapes.ts'
import type { CoreApp, HttpEnv } from '../http/types.ts'
import type { Stream, Streams } from '../notify/streams.ts'
import { beginClaimStream, beginUserStream } from '../notify/tell.ts'
import { FinalClaims } from './finalClaims.ts'
import { readClaim } from './status.ts'
import { readWallet, walletItemShape, walletStates } from './wallet.ts'

const about = { tags: ['Claims'], security: [{ edge: [] }, { login: [] }] }
const params = z.object({ request_id: z.string().openapi({ param: { name: 'request_id', in: 'path' } }) })
const instant = z.iso.datetime().optional()

export const claimShape = z
  .object({
    request_id: z.string(),
    status: z.enum(['PROCESSING', 'DELIVERED', 'REJECTED', 'REVIEW']),
    campaign_id: z.string().optional(),
    coupon_id: z.string().optional(),
    valid_from: instant,
    valid_until: instant,
    reason: z.string().optional().openapi({ description: 'Why it was rejected.' }),
    poll_after_ms: z.int().optional().openapi({ description: 'While it is not final: when to ask again.' }),
  })
  .openapi('Claim')

const eventStream = (description: string) => ({
  description,
  content: { 'text/event-stream': { schema: z.string() } },
})

const claimRoute = createRoute({
  ...about,
  method: 'get',
  path: '/v1/claims/{request_id}',
  summary: 'What became of a claim',
  request: { params },
  responses: { 200: json(claimShape, 'Its present state'), ...problems(401, 404, 503) },
})

const claimEventsRoute = createRoute({
  ...about,
  method: 'get',
  path: '/v1/claims/{request_id}/events',
  summary: 'The same, told as it happens',
  description:
    'First the present state: claim.processing, or the final claim.delivered or claim.rejected, after which the stream ends.',
  request: { params },
  responses: { 200: eventStream('Server-sent events'), ...problems(401, 404, 429, 503) },
})

const myEventsRoute = createRoute({
  ...about,
  method: 'get',
  path: '/v1/me/events',
  summary: 'All that happens to the user’s claims and coupons, as it happens',
  description:
    'First `snapshot` with the latest claims, or, with Last-Event-ID, what was missed since; `resync` before a snapshot when that is no longer known. An event may come twice: the same id is the same event.',
  responses: { 200: eventStream('Server-sent events'), ...problems(401, 429, 503) },
})

const walletRoute = createRoute({
  ...about,
  tags: ['Wallet'],
  method: 'get',
  path: '/v1/me/coupons',
  summary: 'The user’s coupons, newest first',
  request: {
    query: z.object({
      ...pageQuery,
      status: z.enum(walletStates).optional(),
      since: z.string().max(100).optional().openapi({
        description: '`sync` of an earlier answer: only what changed since then, oldest change first.',
      }),
    }),
  },
  responses: {
    200: json(
      pageShape(walletItemShape).extend({
        sync: z.string().openapi({ description: 'Give it as `since` the next time.' }),
      }),
      'A page of coupons',
    ),
    ...problems(400, 401, 503),
  },
})

const noStore = { 'Cache-Control': 'no-store' }

/** Claims' results and the wallet. The user is who the edge vouches for, or who is logged in; never a parameter. */
export function registerClaimRoutes(app: CoreApp, deps: Deps, streams: Streams): void {
  const finals = new FinalClaims(limits.finalClaimsKeptMax)
  app.openapi(claimRoute, async (c) => {
    const userId = await deps.identity.user(c)
    const { request_id: requestId } = c.req.valid('param')
    const known = finals.of(userId, requestId)
    const view = known ?? finals.keep(userId, await readClaim(deps, userId, requestId))
    return c.json(view, 200, noStore)
  })

  app.openapi(claimEventsRoute, async (c) => {
    const userId = await deps.identity.user(c)
    const requestId = c.req.valid('param').request_id
    return openStream(c, streams, { userId, requestId }, (stream) =>
      beginClaimStream(deps, userId, requestId, stream),
    )
  })

  app.openapi(myEventsRoute, async (c) => {
    const userId = await deps.identity.user(c)
    return openStream(c, streams, { userId }, (stream) =>
      beginUserStream(deps, userId, c.req.header('Last-Event-ID'), stream),
    )
  })

  app.openapi(walletRoute, async (c) => {
    const userId = await deps.identity.user(c)
    return c.json(await readWallet(deps, { userId, ...c.req.valid('query') }), 200, noStore)
  })
}

async function openStream(
  c: Context<HttpEnv>,
  streams: Streams,
  of: { userId: string; requestId?: string },
  begin: (stream: Stream) => Promise<void>,
): Promise<Response> {
  if (c.req.method === 'HEAD')
    return c.body(null, 200, { ...noStore, 'Content-Type': 'text/event-stream; charset=utf-8' })
  const { outgoing: response } = c.env as { outgoing: ServerResponse }
  await streams.open({ ...of, response, httpRequestId: c.get('requestId') }, begin)
  return RESPONSE_ALREADY_SENT
}
