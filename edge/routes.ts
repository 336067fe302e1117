import { type Context, Hono } from 'hono'
import { limits } from '../schema/limits.ts'
import { Away } from './away.ts'
import { type ClaimParts, claim } from './claim.ts'
import { claimEvents, myEvents } from './events.ts'
import { type GateMetricsParts, gateMetrics } from './gateMetrics.ts'
import { type IssueParts, issueToken } from './issueToken.ts'
import type { Lifetime } from './lifetime.ts'
import { describe, type Log } from './log.ts'
import { claimStatus, myCoupons, type PersonalParts } from './personal.ts'
import { pushSubscriptions, subscribePush, unsubscribePush } from './push.ts'
import { presentReceipt } from './receipt.ts'
import type { Refuse } from './refusal.ts'
import { type ViewParts, viewCampaign } from './viewCampaign.ts'

export interface Parts {
  readonly claim: ClaimParts
  readonly issue: IssueParts
  readonly view: ViewParts
  readonly personal: PersonalParts
  readonly metrics: GateMetricsParts
  readonly refuse: Refuse
  readonly log: Log
}

type Method = 'GET' | 'POST' | 'DELETE'
type Handler = (request: Request, lifetime: Lifetime, id: string) => Promise<Response>

/** The public API of the edge (DESIGN §7). Every answer that is not a success is a problem. */
export function makeRoutes(parts: Parts): Hono {
  const { refuse } = parts
  const app = new Hono()

  function routes(path: string, handlers: Partial<Record<Method, Handler>>): void {
    const methods = Object.keys(handlers) as Method[]
    const allow = [...methods.flatMap((one) => (one === 'GET' ? [one, 'HEAD'] : [one])), 'OPTIONS'].join(', ')
    for (const method of methods)
      app.on(method, path, (c) => handlers[method]!(c.req.raw, c.executionCtx, c.req.param('id') ?? ''))
    app.options(path, () => new Response(null, { status: 204, headers: { Allow: allow } }))
    app.all(path, () => refuse('METHOD_NOT_ALLOWED', undefined, { Allow: allow }))
  }
  const route = (method: Method, path: string, handler: Handler) => routes(path, { [method]: handler })

  route('GET', '/v1/campaigns/:id', (...args) => viewCampaign(parts.view, ...args))
  route('POST', '/v1/campaigns/:id/claim-tokens', (...args) => issueToken(parts.issue, ...args))
  route('POST', '/v1/campaigns/:id/claims', (...args) => claim(parts.claim, ...args))
  route('POST', '/v1/receipts', (request, lifetime) => presentReceipt(parts.personal, request, lifetime))
  route('GET', '/v1/claims/:id', (...args) => claimStatus(parts.personal, ...args))
  route('GET', '/v1/claims/:id/events', (...args) => claimEvents(parts.personal, ...args))
  route('GET', '/v1/me/events', (request, lifetime) => myEvents(parts.personal, request, lifetime))
  route('GET', '/v1/me/coupons', (request, lifetime) => myCoupons(parts.personal, request, lifetime))
  routes('/v1/me/push-subscriptions', {
    GET: (request, lifetime) => pushSubscriptions(parts.personal, request, lifetime),
    POST: (request, lifetime) => subscribePush(parts.personal, request, lifetime),
  })
  route('DELETE', '/v1/me/push-subscriptions/:id', (...args) => unsubscribePush(parts.personal, ...args))

  // Without its token it must look like any path where nothing is, whatever the method.
  if (parts.metrics.token !== undefined)
    route('GET', '/_gate/metrics', async (request) => gateMetrics(parts.metrics, request))

  app.notFound(() => refuse('NOT_FOUND'))
  app.onError((error, c: Context) => failed(parts, error, c.req.raw))
  return app
}

/** The answer to whatever a handler throws: nothing of the error itself. */
export function failed({ refuse, log }: Parts, error: unknown, request: Request): Response {
  const away = error instanceof Away
  // A client that has left is the likeliest reason for its own call to have broken.
  if (!away || !request.signal.aborted) log(away ? 'away' : 'failed', describe(error))
  return away
    ? refuse('UNAVAILABLE', { retry_after_ms: error.retryAfterMs ?? limits.retryAfterMs })
    : refuse('INTERNAL')
}
