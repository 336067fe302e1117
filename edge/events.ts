import { limits } from '../schema/limits.ts'
import type { ProblemExtras } from '../schema/problem.ts'
import { Away } from './away.ts'
import type { Lifetime } from './lifetime.ts'
import { describe } from './log.ts'
import { loginUser, type PersonalParts, passOn, readerOf } from './personal.ts'
import type { Release } from './streamPlaces.ts'

/** Event streams: the core's, passed on as they come, so many for each user. */

/**
 * `GET /v1/claims/{request_id}/events`: for the same readers as the status. Where no stream can be had, because the
 * user has too many or the core is away, the refusal's `poll_url` is the status, for the same credential.
 */
export async function claimEvents(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
  requestId: string,
): Promise<Response> {
  const reader = await readerOf(parts, request, lifetime, requestId)
  if (reader instanceof Response) return reader
  const status = `/v1/claims/${requestId}`
  const query = reader.ticket === undefined ? '' : new URL(request.url).searchParams.get('ticket')!
  const pollUrl = query === '' ? status : `${status}?ticket=${encodeURIComponent(query)}`
  try {
    return await openStream(parts, request, lifetime, reader.userId, `${status}/events`, {
      poll_url: pollUrl,
    })
  } catch (error) {
    if (!(error instanceof Away)) throw error
    if (!request.signal.aborted) parts.log('away', describe(error))
    return parts.refuse('UNAVAILABLE', {
      detail: 'Poll poll_url meanwhile, or try again after retry_after_ms.',
      retry_after_ms: error.retryAfterMs ?? limits.retryAfterMs,
      poll_url: pollUrl,
    })
  }
}

/** `GET /v1/me/events`: everything that happens to the user's claims and coupons. @throws Away */
export async function myEvents(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<Response> {
  const userId = await loginUser(parts, request, lifetime)
  if (userId === undefined) return parts.refuse('UNAUTHENTICATED')
  const refused = parts.guard.admit(request, userId, lifetime)
  if (refused !== undefined) return parts.refuse(refused.code, refused.extras)
  return openStream(parts, request, lifetime, userId, '/v1/me/events')
}

/** @throws Away */
async function openStream(
  { places, core, refuse }: PersonalParts,
  request: Request,
  lifetime: Lifetime,
  userId: string,
  path: string,
  extras?: ProblemExtras,
): Promise<Response> {
  const release = places.take(userId)
  if (release === undefined)
    return refuse('RATE_LIMITED', {
      detail: `You have ${limits.sseConnectionsPerUserMax} streams open. Close one, or poll the status.`,
      retry_after_ms: limits.pollAfterMaxMs,
      ...extras,
    })
  // Whatever else becomes of a request whose client has left, it may end without a word.
  request.signal.addEventListener('abort', release)
  try {
    const answer = await core.ask(path, 'text/event-stream', userId, request)
    return await passOn(whileOpen(answer, release, lifetime), request)
  } catch (error) {
    release()
    throw error
  }
}

/** The same answer, that gives the place back when its body has ended, broken or lost its reader. */
function whileOpen(answer: Response, release: Release, lifetime: Lifetime): Response {
  if (answer.body === null || answer.status !== 200) {
    release()
    return answer
  }
  // Both sides are the runtime's own, so it pipes without a step of ours for each chunk.
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const piped = answer.body.pipeTo(writable).catch(() => {
    // The core or the client is gone: the other side hears it by the stream itself.
  })
  lifetime.waitUntil(piped.then(release))
  return new Response(readable, answer)
}
