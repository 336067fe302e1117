import {
  type ProblemCode,
  type ProblemExtras,
  problem,
  problemHeaders,
  problemSpec,
} from '../schema/problem.ts'

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
  const plain = new Map<ProblemCode, PlainRefusal>()
  return (code, extras, more) => {
    if (extras === undefined && more === undefined) {
      const refusal = plain.get(code) ?? plainRefusal(code)
      plain.set(code, refusal)
      return new Response(refusal.before + ids.next() + refusal.after, refusal.init)
    }
    const body = problem(code, ids.next(), extras)
    const headers = { ...headersOf(code, extras), ...more }
    return new Response(JSON.stringify(body), { status: body.status, headers })
  }
}

function headersOf(code: ProblemCode, extras?: ProblemExtras): Record<string, string> {
  const headers = problemHeaders(extras)
  const challenge = challenges[code]
  if (challenge !== undefined) headers['WWW-Authenticate'] = challenge
  return headers
}

/** A refusal of which only the request's id is not known beforehand: floods are refused with these. */
interface PlainRefusal {
  readonly before: string
  readonly after: string
  readonly init: ResponseInit
}

function plainRefusal(code: ProblemCode): PlainRefusal {
  const mark = 'REQUEST_ID'
  const [before, after] = JSON.stringify(problem(code, mark)).split(mark) as [string, string]
  return { before, after, init: { status: problemSpec(code).status, headers: headersOf(code) } }
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
