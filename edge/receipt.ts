import { limits } from '../schema/limits.ts'
import { unsealReceipt } from '../schema/tokens.ts'
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
  if (Number(request.headers.get('Content-Length')) > limits.requestBodyBytesMax)
    return refuse('PAYLOAD_TOO_LARGE')
  const type = request.headers.get('Content-Type') ?? ''
  if (!/^application\/json\s*(;|$)/i.test(type)) return refuse('UNSUPPORTED_MEDIA_TYPE')
  const receipt = await receiptOf(request)
  if (receipt === undefined || unsealReceipt(receipt, keys)?.userId !== userId)
    return refuse('INVALID_REQUEST', { detail })
  return passOn(await core.tell('/v1/receipts', { receipt }, userId, request), request)
}

async function receiptOf(request: Request): Promise<string | undefined> {
  const body = parse(await readBounded(request))
  const receipt = (body as { receipt?: unknown } | null | undefined)?.receipt
  return typeof receipt === 'string' && receipt.length <= limits.claimTokenCharsMax ? receipt : undefined
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What is beyond the limit is not read: the text is then no JSON. */
async function readBounded({ body }: Request): Promise<string> {
  if (body === null) return ''
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > limits.requestBodyBytesMax) break
  }
  return text
}
