import { createRoute, z } from '@hono/zod-openapi'
import type { Context, MiddlewareHandler } from 'hono'
import { commandShape, lineOf } from '../campaigns/shapes.ts'
import { authorise, type CommandContext, type Done } from '../command.ts'
import type { Deps } from '../deps.ts'
import { commandContext, expectedVersion, requireRole } from '../http/admin.ts'
import { commandHeaders, idParam } from '../http/campaignCommands.ts'
import { decodeCursor, encodeCursor, pageOf, pageQuery, pageShape } from '../http/pages.ts'
import { idempotencyHeader, json, problems } from '../http/shapes.ts'
import type { CoreApp, HttpEnv } from '../http/types.ts'
import { type ChangeInput, disableEndpoint, enableEndpoint, rotateSecret } from './change.ts'
import { createEndpoint } from './create.ts'
import {
  attemptShape,
  deliveryAnswer,
  deliveryShape,
  deliveryStates,
  listAttempts,
  listDeliveries,
  listEndpoints,
  readEndpoint,
  readSecret,
} from './read.ts'
import { resendDeliveries } from './resend.ts'
import {
  type EndpointAnswer,
  endpointAnswer,
  endpointIdOf,
  endpointShape,
  endpointWithSecretShape,
  eventIdOf,
  newEndpointShape,
  webhookRoles,
} from './shapes.ts'

/** Operators' side of webhooks. */

const base = '/admin/v1/webhook-endpoints'
const about = { tags: ['Webhooks'], security: [{ login: [] }] }
const refusals = problems(400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503)
const createHeaders = z.object({ 'Idempotency-Key': idempotencyHeader.optional() })

export function registerWebhookRoutes(app: CoreApp, deps: Deps): void {
  registerReads(app, deps)
  registerCreate(app, deps)
  for (const verb of Object.keys(verbs) as (keyof typeof verbs)[]) registerVerb(app, deps, verb)
  registerResend(app, deps)
  registerDeliveries(app, deps)
}

/** The role comes first: who may not do it is refused, and recorded, whatever else is wrong with the request. */
function permit(deps: Deps, verb: string): MiddlewareHandler<HttpEnv> {
  return async (c: Context<HttpEnv>, next) => {
    const target = c.req.param('id') ?? ''
    await authorise(deps, c.get('caller'), { action: `webhook.${verb}`, target, roles: webhookRoles.write })
    await next()
  }
}

function headersOf({ answer, replayed }: Done<EndpointAnswer>): Record<string, string> {
  return { ETag: `"${answer.version}"`, ...(replayed ? { 'Idempotency-Replayed': 'true' } : {}) }
}

async function withSecret({ db }: Deps, answer: EndpointAnswer) {
  const secret = await readSecret(db.admin.orm, answer.id, answer.version)
  return secret === undefined ? answer : { ...answer, secret }
}

function registerReads(app: CoreApp, deps: Deps): void {
  const { orm } = deps.db.admin
  const list = createRoute({
    ...about,
    method: 'get',
    path: base,
    summary: 'All endpoints, newest first',
    request: { query: z.object(pageQuery) },
    responses: { 200: json(pageShape(endpointShape), 'A page of endpoints'), ...problems(400, 401, 403) },
  })
  app.openapi(list, async (c) => {
    requireRole(c, webhookRoles.read)
    const { limit, cursor } = c.req.valid('query')
    const after = cursor === undefined ? undefined : decodeCursor(cursor)
    const rows = await listEndpoints(orm, { limit: limit + 1, after })
    return c.json(
      pageOf(rows, limit, endpointAnswer, (row) => encodeCursor(row.createdAt, row.endpointId)),
      200,
    )
  })

  const show = createRoute({
    ...about,
    method: 'get',
    path: `${base}/{id}`,
    summary: 'One endpoint, with the ETag that commands on it need',
    request: { params: idParam },
    responses: { 200: json(endpointShape, 'The endpoint'), ...problems(401, 403, 404) },
  })
  app.openapi(show, async (c) => {
    requireRole(c, webhookRoles.read)
    const answer = endpointAnswer(await readEndpoint(orm, endpointIdOf(c.req.valid('param').id)))
    return c.json(answer, 200, { ETag: `"${answer.version}"` })
  })
}

function registerCreate(app: CoreApp, deps: Deps): void {
  const create = createRoute({
    ...about,
    method: 'post',
    path: base,
    summary: 'Make an endpoint, which hears of all that happens from now on',
    middleware: [permit(deps, 'create')],
    request: { headers: createHeaders, body: { ...json(newEndpointShape, 'The endpoint'), required: true } },
    responses: {
      201: json(endpointWithSecretShape, 'The endpoint and its secret'),
      ...problems(400, 401, 403, 409, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(create, async (c) => {
    const done = await createEndpoint(commandContext(c, deps), c.req.valid('json'))
    const Location = `${base}/${done.answer.id}`
    return c.json(await withSecret(deps, done.answer), 201, { ...headersOf(done), Location })
  })
}

const verbs = {
  disable: { run: disableEndpoint, summary: 'Send it nothing more; what is due waits' },
  enable: { run: enableEndpoint, summary: 'Send to it again, what is due first' },
  'rotate-secret': { run: rotateSecret, summary: 'A new secret; for a day the one before signs as well' },
} satisfies Record<
  string,
  { run(ctx: CommandContext, input: ChangeInput): Promise<Done<EndpointAnswer>>; summary: string }
>

function registerVerb(app: CoreApp, deps: Deps, verb: keyof typeof verbs): void {
  const { run, summary } = verbs[verb]
  const route = createRoute({
    ...about,
    method: 'post',
    path: `${base}/{id}/${verb}`,
    summary,
    middleware: [permit(deps, verb)],
    request: { params: idParam, headers: commandHeaders, body: json(commandShape, 'Why') },
    responses: { 200: json(endpointWithSecretShape, 'The endpoint as it is now'), ...refusals },
  })
  app.openapi(route, async (c) => {
    const endpointId = endpointIdOf(c.req.valid('param').id)
    const ctx = commandContext(c, deps)
    const { reason } = c.req.valid('json')
    const done = await run(ctx, { endpointId, expectedVersion: expectedVersion(c), reason })
    const answer = verb === 'rotate-secret' ? await withSecret(deps, done.answer) : done.answer
    return c.json(answer, 200, headersOf(done))
  })
}

const reason = lineOf(500).optional()
const resendShape = z.union([
  z.object({ webhook_id: z.string(), reason }).strict(),
  z.object({ failed_since: z.iso.datetime({ offset: true }), reason }).strict(),
])

function registerResend(app: CoreApp, deps: Deps): void {
  const resend = createRoute({
    ...about,
    method: 'post',
    path: `${base}/{id}/resend`,
    summary: 'Send one delivery again, or all that failed since an instant, under the same webhook ids',
    middleware: [permit(deps, 'resend')],
    request: {
      params: idParam,
      headers: createHeaders,
      body: { ...json(resendShape, 'Which'), required: true },
    },
    responses: { 200: json(z.object({ queued: z.int() }), 'How many will be sent'), ...refusals },
  })
  app.openapi(resend, async (c) => {
    const endpointId = endpointIdOf(c.req.valid('param').id)
    const body = c.req.valid('json')
    const which = 'webhook_id' in body ? { webhookId: body.webhook_id } : { failedSince: body.failed_since }
    const ctx = commandContext(c, deps)
    const { answer, replayed } = await resendDeliveries(ctx, { endpointId, reason: body.reason, ...which })
    return c.json(answer, 200, replayed ? { 'Idempotency-Replayed': 'true' } : {})
  })
}

function registerDeliveries(app: CoreApp, deps: Deps): void {
  const { orm } = deps.db.admin
  const list = createRoute({
    ...about,
    method: 'get',
    path: `${base}/{id}/deliveries`,
    summary: 'What was sent to it, newest first',
    request: {
      params: idParam,
      query: z.object({ ...pageQuery, state: z.enum(deliveryStates).optional() }),
    },
    responses: {
      200: json(pageShape(deliveryShape), 'A page of deliveries'),
      ...problems(400, 401, 403, 404),
    },
  })
  app.openapi(list, async (c) => {
    requireRole(c, webhookRoles.read)
    const { endpointId } = await readEndpoint(orm, endpointIdOf(c.req.valid('param').id))
    const { limit, cursor, state } = c.req.valid('query')
    const after = cursor === undefined ? undefined : decodeCursor(cursor)
    const rows = await listDeliveries(orm, endpointId, { limit: limit + 1, after, state })
    const cursorOf = (row: (typeof rows)[number]) => encodeCursor(row.createdAt, String(row.eventId))
    return c.json(pageOf(rows, limit, deliveryAnswer, cursorOf), 200)
  })

  const attempts = createRoute({
    ...about,
    method: 'get',
    path: `${base}/{id}/deliveries/{webhook_id}/attempts`,
    summary: 'Each attempt of one delivery, oldest first',
    request: {
      params: idParam.extend({
        webhook_id: z.string().openapi({ param: { name: 'webhook_id', in: 'path' } }),
      }),
    },
    responses: {
      200: json(z.object({ data: z.array(attemptShape) }), 'Its attempts'),
      ...problems(401, 403, 404),
    },
  })
  app.openapi(attempts, async (c) => {
    requireRole(c, webhookRoles.read)
    const { id, webhook_id } = c.req.valid('param')
    const { endpointId } = await readEndpoint(orm, endpointIdOf(id))
    return c.json({ data: await listAttempts(orm, endpointId, eventIdOf(webhook_id)) }, 200)
  })
}
