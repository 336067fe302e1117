import type { ScriptRunner } from '../lua/runner.ts'
import { isRequestId, mayBelongTo } from '../schema/acceptance.ts'
import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import { openTicket, type Ticket } from '../schema/tokens.ts'
import { Away } from './away.ts'
import type { Core } from './core.ts'
import type { ReadGuard } from './guards/readGuard.ts'
import type { Lifetime } from './lifetime.ts'
import { describe, type Log } from './log.ts'
import { bearer, type Logins } from './login.ts'
import { recordedStatus } from './recorded.ts'
import { personalJson, type Refuse } from './refusal.ts'
import type { StreamPlaces } from './streamPlaces.ts'

/** Reads of what is a user's own. Who the user is, is decided here; what there is to read, by the core. */

export interface PersonalParts {
  readonly core: Core
  /** To the arbiter's Redis, for what stands there while the core is away. */
  readonly runner: ScriptRunner
  readonly logins: Logins
  /** Of tickets. */
  readonly keys: Keyring
  readonly guard: ReadGuard
  readonly places: StreamPlaces
  readonly refuse: Refuse
  readonly log: Log
  clock(): number
}

const json = 'application/json'

/**
 * `GET /v1/claims/{request_id}`, for the claim's user (login) or the bearer of its ticket.
 * While the core is away, the bearer hears what the arbiter's record lets us say: the ticket proves the acceptance.
 */
export async function claimStatus(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
  requestId: string,
): Promise<Response> {
  const reader = await readerOf(parts, request, lifetime, requestId)
  if (reader instanceof Response) return reader
  try {
    return passOn(await parts.core.ask(`/v1/claims/${requestId}`, json, reader.userId, request), request)
  } catch (error) {
    if (!(error instanceof Away) || reader.ticket === undefined) throw error
    parts.log('away', describe(error))
    const status = await recordedStatus(parts, request, lifetime, reader.ticket)
    const answer = { request_id: requestId, status, poll_after_ms: limits.pollAfterMaxMs }
    return personalJson(JSON.stringify(answer), 200)
  }
}

/** `GET /v1/me/coupons?status=&since=&cursor=&limit=`: the wallet. */
export async function myCoupons(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<Response> {
  const userId = await loginUser(parts, request, lifetime)
  if (userId === undefined) return parts.refuse('UNAUTHENTICATED')
  const refused = parts.guard.admit(request, userId, lifetime)
  if (refused !== undefined) return parts.refuse(refused.code, refused.extras)
  const asked = new URL(request.url).searchParams
  const query = new URLSearchParams()
  for (const name of ['status', 'since', 'cursor', 'limit'])
    for (const value of asked.getAll(name)) query.append(name, value)
  const path = query.size > 0 ? `/v1/me/coupons?${query}` : '/v1/me/coupons'
  return passOn(await parts.core.ask(path, json, userId, request), request)
}

export interface Reader {
  userId: string
  /** With which the reader came, unless by login. */
  ticket: Ticket | undefined
}

/** Whose claim it must be; a ticket goes first, since it holds when the login beside it has run out. */
export async function readerOf(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
  requestId: string,
): Promise<Reader | Response> {
  if (!isRequestId(requestId)) return parts.refuse('CLAIM_NOT_FOUND')
  const text = new URL(request.url).searchParams.get('ticket')
  const ticket = text === null ? undefined : openTicket(text, requestId, parts.clock(), parts.keys)
  if (ticket !== undefined) return { userId: ticket.userId, ticket }
  const userId = await loginUser(parts, request, lifetime)
  if (userId === undefined) return parts.refuse('UNAUTHENTICATED')
  const refused = parts.guard.admit(request, userId, lifetime)
  if (refused !== undefined) return parts.refuse(refused.code, refused.extras)
  return mayBelongTo(requestId, userId) ? { userId, ticket: undefined } : parts.refuse('CLAIM_NOT_FOUND')
}

export async function loginUser(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<string | undefined> {
  const login = bearer(request.headers.get('Authorization'))
  return login === undefined ? undefined : parts.logins.userOf(login, lifetime)
}

/** The core's answer with the headers that are the client's business, for nobody else to keep. */
export async function passOn(answer: Response, request: Request): Promise<Response> {
  const headers = new Headers({ 'Cache-Control': 'no-store' })
  for (const name of ['Content-Type', 'Retry-After']) {
    const value = answer.headers.get(name)
    if (value !== null) headers.set(name, value)
  }
  if (request.method === 'HEAD') {
    // A stream that nobody reads would stay open.
    await answer.body?.cancel()
    return new Response(null, { status: answer.status, headers })
  }
  return new Response(answer.body, { status: answer.status, headers })
}
