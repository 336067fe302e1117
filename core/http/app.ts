import { randomUUID } from 'node:crypto'
import { OpenAPIHono } from '@hono/zod-openapi'
import type { MiddlewareHandler } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { Histogram } from 'prom-client'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import { notFound } from './notFound.ts'
import { answerError, problemResponse } from './problems.ts'
import type { CoreApp, HttpEnv } from './types.ts'
import { refuseInvalid } from './validation.ts'

/** An app that answers everything, also what goes wrong, in the form of DESIGN §7; parts add their routes. */
export function createApp(deps: Deps): CoreApp {
  const app: CoreApp = new OpenAPIHono<HttpEnv>({ defaultHook: refuseInvalid })
  app.use(nameRequest(deps))
  app.use(measure(deps))
  app.use(
    bodyLimit({
      maxSize: limits.requestBodyBytesMax,
      onError: (c) => problemResponse(c, 'PAYLOAD_TOO_LARGE'),
    }),
  )
  app.use(ignoreTypeOfNothing)
  app.onError(answerError)
  app.notFound(notFound(app))
  return app
}

const givenId = /^[A-Za-z0-9_-]{8,64}$/

/** The edge names a request once for both of us; anybody else's name is as good, since it only labels logs. */
function nameRequest({ log }: Deps): MiddlewareHandler<HttpEnv> {
  return async (c, next) => {
    const given = c.req.header('X-Request-Id')
    const requestId = given !== undefined && givenId.test(given) ? given : randomUUID()
    c.set('requestId', requestId)
    c.set('log', log.child({ request_id: requestId, method: c.req.method, path: c.req.path }))
    await next()
    c.header('X-Request-Id', requestId)
    c.header('X-Content-Type-Options', 'nosniff')
  }
}

function measure({ metrics }: Deps): MiddlewareHandler<HttpEnv> {
  const seconds = new Histogram({
    name: 'tidegate_http_request_seconds',
    help: 'Time from a request to its answer’s headers.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [metrics],
  })
  return async (c, next) => {
    const started = performance.now()
    await next()
    const took = (performance.now() - started) / 1000
    // A path of nobody's choosing must not become a label.
    const route = c.res.status === 404 || c.res.status === 405 ? 'none' : lastRoute(c.req.matchedRoutes)
    seconds.observe({ method: c.req.method, route, status: c.res.status }, took)
    c.get('log').debug({ status: c.res.status, ms: Math.round(took * 1000) }, 'answered')
  }
}

function lastRoute(matched: { path: string; method: string }[]): string {
  return matched.findLast(({ method }) => method !== 'ALL')?.path ?? 'none'
}

/** Many clients name a content type also where they send nothing; that is no malformed JSON. */
const ignoreTypeOfNothing: MiddlewareHandler<HttpEnv> = async (c, next) => {
  const { method, headers } = c.req.raw
  // What is read here is kept for the route.
  if (method !== 'GET' && method !== 'HEAD' && headers.has('Content-Type') && (await c.req.text()) === '') {
    const without = new Headers(headers)
    without.delete('Content-Type')
    c.req.raw = new Request(c.req.url, { method, headers: without })
  }
  await next()
}
