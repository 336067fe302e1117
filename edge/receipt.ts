import { limits } from '../schema/limits.ts'
import { unsealReceipt } from '../schema/tokens.ts'
import { jsonBody } from './jsonBody.ts'
import type { Lifetime } from './lifetime.ts'
import { loginUser, type PersonalParts, passOn } from './personal.ts'

const detail = 'Send {"receipt": "…"} as application/json: the receipt of your own claim, unchanged.'

/**
 * `POST /v1/receipts` `{receipt}`, by the claim's user: an acceptance that is no longer known is honoured, or
 * rejected with a reason (CL15). A receipt that isn't the user's never reaches the core. @throws Away
 */
export async function presentReceipt(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<Response> {
  const { refuse, keys, guard, core } = parts
  const userId = await loginUser(parts, request, lifetime)
  if (userId === undefined) return refuse('UNAUTHENTICATED')
  const refused = guard.admit(request, userId, lifetime)
  if (refused !== undefined) return refuse(refused.code, refused.extras)
  const body = await jsonBody(refuse, request)
  if (body instanceof Response) return body
  const receipt = receiptOf(body.value)
  if (receipt === undefined || unsealReceipt(receipt, keys)?.userId !== userId)
    return refuse('INVALID_REQUEST', { detail })
  return passOn(await core.tell('/v1/receipts', { receipt }, userId, request), request)
}

function receiptOf(body: unknown): string | undefined {
  const receipt = (body as { receipt?: unknown } | null | undefined)?.receipt
  return typeof receipt === 'string' && receipt.length <= limits.claimTokenCharsMax ? receipt : undefined
}
