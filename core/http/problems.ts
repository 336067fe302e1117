import type { Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { limits } from '../../schema/limits.ts'
import { type ProblemCode, type ProblemExtras, problem, problemHeaders } from '../../schema/problem.ts'
import { IllegalTransition } from '../../schema/states.ts'
import { isDatabaseAway } from '../db.ts'
import { Refused } from '../refusal.ts'
import type { HttpEnv } from './types.ts'

/** The answer to a request that is not done (RFC 9457). */
export function problemResponse(
  c: Context<HttpEnv>,
  code: ProblemCode,
  extras?: ProblemExtras,
  headers?: Record<string, string>,
): Response {
  const body = problem(code, c.get('requestId'), extras)
  return c.body(JSON.stringify(body), body.status as 400, { ...problemHeaders(extras), ...headers })
}

/** What any exception of a handler is told as. Only a Refused speaks; of everything else the caller learns no cause. */
export function answerError(error: Error, c: Context<HttpEnv>): Response {
  if (error instanceof Refused) return problemResponse(c, error.code, error.extras)
  if (error instanceof HTTPException) return answerHttpException(error, c)
  if (error instanceof IllegalTransition) return problemResponse(c, 'CONFLICT')
  const log = c.get('log')
  if (isDatabaseAway(error)) {
    log.warn({ err: error }, 'the database is away')
    const changes = !['GET', 'HEAD'].includes(c.req.method)
    return problemResponse(c, changes ? 'OUTCOME_UNKNOWN' : 'UNAVAILABLE', {
      retry_after_ms: limits.retryAfterMs,
    })
  }
  log.error({ err: error }, 'a request failed')
  return problemResponse(c, 'INTERNAL')
}

/** Hono's own refusals come from reading the body. */
function answerHttpException(error: HTTPException, c: Context<HttpEnv>): Response {
  switch (error.status) {
    case 400:
      return problemResponse(c, 'INVALID_REQUEST', { detail: 'The body is not valid JSON.' })
    case 413:
      return problemResponse(c, 'PAYLOAD_TOO_LARGE')
    case 415:
      return problemResponse(c, 'UNSUPPORTED_MEDIA_TYPE')
    default:
      c.get('log').error({ err: error }, 'a request failed')
      return problemResponse(c, 'INTERNAL')
  }
}
