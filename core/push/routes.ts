import { createRoute, z } from '@hono/zod-openapi'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import { json, problems } from '../http/shapes.ts'
import type { CoreApp } from '../http/types.ts'
import { Refused } from '../refusal.ts'
import { listSubscriptions, subscribe, unsubscribe } from './subscriptions.ts'
import { makeVapid } from './vapid.ts'

const path = '/v1/me/push-subscriptions'
const about = { tags: ['Web Push'], security: [{ edge: [] }, { login: [] }] }
const noStore = { 'Cache-Control': 'no-store' }

const subscriptionShape = z
  .object({ id: z.string(), created_at: z.iso.datetime() })
  .openapi('PushSubscription')

const newSubscriptionShape = z.object({
  endpoint: z.string().max(limits.webhookUrlCharsMax),
  keys: z.object({ p256dh: z.string().max(200), auth: z.string().max(100) }),
  expirationTime: z.number().int().min(0).max(8.64e15).nullable().optional(),
})

const listRoute = createRoute({
  ...about,
  method: 'get',
  path,
  summary: 'The user’s browsers that are told of results, and the key to subscribe with',
  responses: {
    200: json(
      z.object({
        vapid_public_key: z.string().openapi({ description: 'The browser’s applicationServerKey.' }),
        data: z.array(subscriptionShape),
      }),
      'Subscriptions, newest first',
    ),
    ...problems(401, 404, 503),
  },
})

const subscribeRoute = createRoute({
  ...about,
  method: 'post',
  path,
  summary: 'Tell this browser of results; the same again changes nothing',
  request: {
    body: { ...json(newSubscriptionShape, 'PushSubscription.toJSON() of the browser'), required: true },
  },
  responses: { 200: json(subscriptionShape, 'The subscription'), ...problems(400, 401, 404, 413, 415, 503) },
})

const unsubscribeRoute = createRoute({
  ...about,
  method: 'delete',
  path: `${path}/{id}`,
  summary: 'Tell it nothing more',
  request: { params: z.object({ id: z.string().openapi({ param: { name: 'id', in: 'path' } }) }) },
  responses: {
    200: json(z.object({ removed: z.boolean() }), 'False: there was none of this user'),
    ...problems(401, 404, 503),
  },
})

/** The user is who the edge vouches for, or who is logged in; never a parameter. */
export function registerPushRoutes(app: CoreApp, deps: Deps): void {
  const { vapid } = deps.env
  const publicKey = vapid && makeVapid(vapid.privateKey, vapid.subject).publicKey
  /** @throws Refused NOT_FOUND where Web Push is not set up. */
  const offered = (): string => {
    if (publicKey === undefined)
      throw new Refused('NOT_FOUND', { detail: 'Web Push is not offered here. Open a stream, or poll.' })
    return publicKey
  }

  app.openapi(listRoute, async (c) => {
    const userId = await deps.identity.user(c)
    const vapid_public_key = offered()
    return c.json({ vapid_public_key, data: await listSubscriptions(deps, userId) }, 200, noStore)
  })
  app.openapi(subscribeRoute, async (c) => {
    const userId = await deps.identity.user(c)
    offered()
    return c.json(await subscribe(deps, userId, c.req.valid('json')), 200, noStore)
  })
  app.openapi(unsubscribeRoute, async (c) => {
    const userId = await deps.identity.user(c)
    offered()
    return c.json({ removed: await unsubscribe(deps, userId, c.req.valid('param').id) }, 200, noStore)
  })
}
