import { limits } from '../../schema/limits.ts'
import { type ClaimView, latestClaims, readClaim, type StatusDeps } from '../claim/status.ts'
import { parsePosition, positionOf, type StreamPosition } from './event.ts'
import { eventsAfter } from './outbox.ts'
import type { Stream } from './streams.ts'

/** What a stream says first. It is registered with the hub already, so nothing falls between this and what follows. */

/** Claims shown to a user who has just come. */
const snapshotClaims = 20

/**
 * The claim's present state; the stream ends when that is final (case-J8). A claim's stream has nothing to resume:
 * its state is all that it ever says. @throws like readClaim
 */
export async function beginClaimStream(
  deps: StatusDeps,
  userId: string,
  requestId: string,
  stream: Stream,
): Promise<void> {
  const position = { eventId: 0, atMs: deps.clock() }
  const { poll_after_ms: _, ...claim } = await readClaim(deps, userId, requestId)
  stream.tell(typeOf(claim), JSON.stringify(claim), position)
  if (claim.status === 'DELIVERED' || claim.status === 'REJECTED') stream.end()
}

function typeOf({ status }: Pick<ClaimView, 'status'>): string {
  if (status === 'DELIVERED') return 'claim.delivered'
  return status === 'REJECTED' ? 'claim.rejected' : 'claim.processing'
}

/**
 * All that happened since the position that the client saw last; without one, or with one that is no longer kept,
 * the present state (case-J3, case-J5).
 */
export async function beginUserStream(
  deps: StatusDeps,
  userId: string,
  lastEventId: string | undefined,
  stream: Stream,
): Promise<void> {
  const nowMs = deps.clock()
  const asked = parsePosition(lastEventId)
  if (asked !== undefined) {
    // A position in the future is nobody's: what it claims to have seen is told again.
    const from: StreamPosition = { eventId: asked.eventId, atMs: Math.min(asked.atMs, nowMs) }
    const kept = from.atMs >= nowMs - limits.ticketLifetimeMs
    const missed = kept ? await eventsAfter(deps.db.query, userId, from) : undefined
    if (missed !== undefined) {
      for (const event of missed) stream.tell(event.type, event.data, positionOf(event))
      return
    }
    stream.tell('resync', '{}', { eventId: 0, atMs: nowMs })
  }
  const claims = (await latestClaims(deps, userId, snapshotClaims)).map(
    ({ poll_after_ms: _, ...claim }) => claim,
  )
  stream.tell('snapshot', JSON.stringify({ claims }), { eventId: 0, atMs: nowMs })
}
