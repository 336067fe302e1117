import { limits } from '../schema/limits.ts'
import type { ClaimToken } from '../schema/tokens.ts'
import { acceptanceBody } from './acceptance.ts'
import { NoAnswer } from './away.ts'
import type { ClaimParts } from './claim.ts'
import { passOn } from './personal.ts'

/** What the core says of a claim that it decided itself. */
interface Issued {
  request_id: string
  coupon_id: string
  replayed: boolean
}

const headers = { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }

/**
 * A claim on a direct campaign (IS13): the core decides and issues in one transaction; 201 with the coupon, the same
 * for a replay, or its refusal. Without an answer nobody knows: the same key finds out. @throws Away
 */
export async function claimDirectly(
  { core, keys, metrics, refuse }: ClaimParts,
  request: Request,
  { campaignId, bucket, userId }: ClaimToken,
): Promise<Response> {
  const body = {
    claim_token: request.headers.get('Claim-Token'),
    idempotency_key: request.headers.get('Idempotency-Key'),
  }
  let answer: Response
  try {
    answer = await core.tell('/internal/v1/claims', body, userId, request)
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error
    metrics.count('OUTCOME_UNKNOWN')
    return refuse('OUTCOME_UNKNOWN', { retry_after_ms: limits.retryAfterMs })
  }
  if (answer.status !== 200) return passOn(answer, request)
  const issued = (await answer.json()) as Issued
  metrics.count(issued.replayed ? 'REPLAYED' : 'ACCEPTED')
  const text = acceptanceBody(
    { campaignId, bucket, userId, requestId: issued.request_id },
    keys.receipt,
    issued.coupon_id,
  )
  const replayed = { ...headers, 'Idempotency-Replayed': 'true' }
  return new Response(text, {
    status: 201,
    headers: issued.replayed ? replayed : headers,
  })
}
