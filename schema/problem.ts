import { decisions, type Refusal } from './decision.ts'

/** Codes that are not the arbiter's: the gate's and the core's own refusals. */
export const gateProblems = {
  INVALID_REQUEST: {
    status: 400,
    title: 'The request is malformed',
    detail: 'Correct it; see the API documentation.',
  },
  UNAUTHENTICATED: {
    status: 401,
    title: 'A valid login is needed',
    detail: 'Log in and send the token as a Bearer.',
  },
  TOKEN_INVALID: {
    status: 401,
    title: 'The claim token is not valid for this claim',
    detail: 'Fetch a claim token for this campaign, user and device.',
  },
  TOKEN_EXPIRED: {
    status: 401,
    title: 'The claim token has expired',
    detail: 'Fetch a new claim token and repeat the claim with the same Idempotency-Key.',
  },
  FORBIDDEN: {
    status: 403,
    title: 'Your role does not allow this',
    detail: 'Ask someone who holds the role.',
  },
  NOT_ELIGIBLE: {
    status: 403,
    title: 'This campaign is not for you',
    detail: 'Its audience does not include you.',
  },
  CHALLENGE_REQUIRED: {
    status: 403,
    title: 'A challenge must be solved first',
    detail: 'Solve a new Turnstile challenge for this action and send its response as Turnstile-Response.',
  },
  CAMPAIGN_NOT_FOUND: { status: 404, title: 'There is no such campaign', detail: 'Check the campaign’s id.' },
  CLAIM_NOT_FOUND: { status: 404, title: 'There is no such claim of yours', detail: 'Check the request id.' },
  NOT_FOUND: { status: 404, title: 'There is nothing here', detail: 'Check the path.' },
  METHOD_NOT_ALLOWED: {
    status: 405,
    title: 'This method is not offered here',
    detail: 'See the Allow header.',
  },
  CONFLICT: { status: 409, title: 'The thing is in another state', detail: 'Read it again, then decide.' },
  PRECONDITION_FAILED: {
    status: 412,
    title: 'Someone changed this meanwhile',
    detail: 'Read it again and repeat with the new If-Match.',
  },
  PAYLOAD_TOO_LARGE: { status: 413, title: 'The request body is too large', detail: 'Send less.' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    title: 'This content type is not understood',
    detail: 'Send application/json, or no body where none belongs.',
  },
  PRECONDITION_REQUIRED: {
    status: 428,
    title: 'A header is missing',
    detail: 'Send If-Match or Idempotency-Key.',
  },
  RATE_LIMITED: { status: 429, title: 'Too many requests', detail: 'Come back after retry_after_ms.' },
  INTERNAL: {
    status: 500,
    title: 'Something failed on our side',
    detail: 'Try again; quote request_id if it persists.',
  },
  OUTCOME_UNKNOWN: {
    status: 503,
    title: 'We do not know the outcome yet',
    detail: 'Repeat with the same Idempotency-Key: it can’t be counted twice.',
  },
  UNAVAILABLE: {
    status: 503,
    title: 'A part of the service is away',
    detail: 'Try again after retry_after_ms.',
  },
} as const satisfies Record<string, { status: number; title: string; detail: string }>

export type ProblemCode = keyof typeof gateProblems | Refusal

/** RFC 9457 with this product's members (DESIGN §7). */
export interface Problem {
  type: string
  title: string
  status: number
  detail: string
  code: ProblemCode
  request_id: string
  retry_after_ms?: number
  starts_at?: string
  server_time?: string
  [extension: string]: unknown
}

export type ProblemExtras = Partial<
  Pick<Problem, 'detail' | 'retry_after_ms' | 'starts_at' | 'server_time'>
> & { [extension: string]: unknown }

export function problemSpec(code: ProblemCode): { status: number; title: string; detail: string } {
  return code in gateProblems ? gateProblems[code as keyof typeof gateProblems] : decisions[code as Refusal]
}

/** The body of a refusal. `requestId` names the HTTP request, for support; extras never carry internals. */
export function problem(code: ProblemCode, requestId: string, extras?: ProblemExtras): Problem {
  const { status, title, detail } = problemSpec(code)
  return {
    type: `urn:tidegate:problem:${code}`,
    title,
    status,
    detail,
    code,
    request_id: requestId,
    ...extras,
  }
}

/** Headers of a refusal: never cached, and Retry-After in whole seconds, rounded up. */
export function problemHeaders(extras?: ProblemExtras): Record<string, string> {
  const headers: Record<string, string> = {
    'Content-Type': 'application/problem+json',
    'Cache-Control': 'no-store',
  }
  if (extras?.retry_after_ms !== undefined)
    headers['Retry-After'] = String(Math.ceil(extras.retry_after_ms / 1000))
  return headers
}
