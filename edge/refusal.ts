import { type ProblemCode, type ProblemExtras, problem, problemHeaders } from '../schema/problem.ts'

/** Names each refused HTTP request, for support and in our logs: unique, and as cheap as a refusal must be. */
export interface RequestIds {
  next(): string
}

/** `prefix` is random, drawn once an isolate. */
export function requestIds(prefix: string): RequestIds {
  let count = 0
  return { next: () => `${prefix}-${(count++).toString(36)}` }
}

/** Answers in problem+json (DESIGN §7). */
export type Refuse = (code: ProblemCode, extras?: ProblemExtras, headers?: Record<string, string>) => Response

/** RFC 9110 wants a challenge with every 401. */
const challenges: { readonly [code in ProblemCode]?: string } = {
  UNAUTHENTICATED: 'Bearer',
  TOKEN_INVALID: 'ClaimToken',
  TOKEN_EXPIRED: 'ClaimToken',
}

export function makeRefuse(ids: RequestIds): Refuse {
  return (code, extras, more) => {
    const body = problem(code, ids.next(), extras)
    const headers = problemHeaders(extras)
    const challenge = challenges[code]
    if (challenge !== undefined) headers['WWW-Authenticate'] = challenge
    return new Response(JSON.stringify(body), {
      status: body.status,
      headers: more === undefined ? headers : { ...headers, ...more },
    })
  }
}

let lastMs = Number.NaN
let lastInstant = ''

/** RFC 3339 UTC. The claims of one call share theirs. */
export function instant(ms: number): string {
  if (ms !== lastMs) {
    lastInstant = new Date(ms).toISOString()
    lastMs = ms
  }
  return lastInstant
}

/** A personal answer: JSON that nobody else may keep. */
export function personalJson(body: string, status: number): Response {
  return new Response(body, {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' },
  })
}
