import { packRequestId, timeOfRequestId } from '../schema/acceptance.ts'
import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import { sealAcceptance, type Ticket } from '../schema/tokens.ts'
import { instant } from './refusal.ts'

/**
 * The 202 body. It follows from the acceptance alone, so that a replay has the same body byte for byte.
 * Of a claim that was issued at once it is the 201 body, with its coupon. The addresses carry a ticket: an
 * EventSource can't send a login.
 *
 * Written as text: ids, instants and signed texts are ASCII that JSON leaves as it is, and this is the hot path.
 */
export function acceptanceBody(
  acceptance: Ticket & { packedId?: string | undefined },
  ring: Keyring,
  couponId?: string,
): string {
  const { requestId } = acceptance
  const { ticket, receipt } = sealAcceptance(
    acceptance,
    acceptance.packedId ?? packRequestId(requestId),
    ring,
  )
  // All else that a ticket is made of may stand in a query as it is.
  const query = `?ticket=${ticket.includes('%') ? ticket.replaceAll('%', '%25') : ticket}`
  const status = couponId === undefined ? '"ACCEPTED"' : `"DELIVERED","coupon_id":${JSON.stringify(couponId)}`
  return `{"request_id":"${requestId}","status":${status},"accepted_at":"${instant(timeOfRequestId(requestId))}",${`"status_url":"/v1/claims/${requestId}${query}","events_url":"/v1/claims/${requestId}/events${query}",`}"poll_after_ms":${limits.pollAfterMs},"receipt":"${receipt}"}`
}
