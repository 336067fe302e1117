import { timeOfRequestId } from '../schema/acceptance.ts'
import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import { type Receipt, sealReceipt, sealTicket } from '../schema/tokens.ts'
import { instant } from './refusal.ts'

/**
 * The 202 body. It follows from the acceptance alone, so that a replay has the same body byte for byte.
 * Of a claim that was issued at once it is the 201 body, with its coupon. The addresses carry a ticket: an EventSource can't send a login.
 */
export function acceptanceBody(acceptance: Receipt, ring: Keyring, couponId?: string): string {
  const { requestId, userId } = acceptance
  const claim = `/v1/claims/${requestId}`
  // All else that a ticket is made of may stand in a query as it is.
  const query = `?ticket=${sealTicket(requestId, userId, ring).replaceAll('%', '%25')}`
  return JSON.stringify({
    request_id: requestId,
    status: couponId === undefined ? 'ACCEPTED' : 'DELIVERED',
    ...(couponId === undefined ? {} : { coupon_id: couponId }),
    accepted_at: instant(timeOfRequestId(requestId)),
    status_url: claim + query,
    events_url: `${claim}/events${query}`,
    poll_after_ms: limits.pollAfterMs,
    receipt: sealReceipt(acceptance, ring),
  })
}
