import { jsonBody } from './jsonBody.ts'
import type { Lifetime } from './lifetime.ts'
import { loginUser, type PersonalParts, passOn } from './personal.ts'

/** A user's browsers that hear of results by Web Push. The core keeps them; who the user is, is decided here. */

const path = '/v1/me/push-subscriptions'
const idForm = /^[0-9a-f-]{36}$/

/** `GET /v1/me/push-subscriptions`: them, and the key to subscribe with. */
export async function pushSubscriptions(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<Response> {
  const userId = await admitted(parts, request, lifetime)
  if (userId instanceof Response) return userId
  return passOn(await parts.core.ask(path, 'application/json', userId, request), request)
}

/** `POST /v1/me/push-subscriptions`, with the browser's subscription. */
export async function subscribePush(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<Response> {
  const userId = await admitted(parts, request, lifetime)
  if (userId instanceof Response) return userId
  const body = await jsonBody(parts.refuse, request)
  if (body instanceof Response) return body
  if (body.value === undefined)
    return parts.refuse('INVALID_REQUEST', { detail: 'Send the browser’s PushSubscription as JSON.' })
  return passOn(await parts.core.tell(path, body.value, userId, request), request)
}

/** `DELETE /v1/me/push-subscriptions/{id}`. */
export async function unsubscribePush(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
  id: string,
): Promise<Response> {
  const userId = await admitted(parts, request, lifetime)
  if (userId instanceof Response) return userId
  if (!idForm.test(id)) return parts.refuse('NOT_FOUND')
  return passOn(await parts.core.remove(`${path}/${id}`, userId, request), request)
}

async function admitted(
  parts: PersonalParts,
  request: Request,
  lifetime: Lifetime,
): Promise<string | Response> {
  const userId = await loginUser(parts, request, lifetime)
  if (userId === undefined) return parts.refuse('UNAUTHENTICATED')
  const refused = parts.guard.admit(request, userId, lifetime)
  return refused === undefined ? userId : parts.refuse(refused.code, refused.extras)
}
