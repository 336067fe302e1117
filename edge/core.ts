import { limits } from '../schema/limits.ts'
import type { Keyring } from '../schema/sealed.ts'
import { sealAssertion } from '../schema/tokens.ts'
import type { CampaignSnapshot } from '../schema/view.ts'
import { Away, NoAnswer } from './away.ts'
import type { Breaker } from './breaker.ts'

export interface Core {
  /** Undefined: there is no such campaign to show. @throws Away */
  campaign(campaignId: string): Promise<CampaignSnapshot | undefined>
  /**
   * Asks `path` (with its query) for a user whom we verified: 200 with this type of content, or the core's own
   * refusal (problem+json). The body streams.
   * @param request the client's: its `Last-Event-ID` goes along, and its leaving ends the call.
   * @throws Away
   */
  ask(path: string, type: string, userId: string, request: Request): Promise<Response>
  /** The same for a command: sends `body` as JSON, and gets JSON. */
  tell(path: string, body: unknown, userId: string, request: Request): Promise<Response>
  /** The same to remove something. */
  remove(path: string, userId: string, request: Request): Promise<Response>
}

export interface CoreOptions {
  /** CORE_URL, without a slash at its end. */
  readonly url: string
  readonly keys: Keyring
  readonly breaker: Breaker
  clock(): number
}

export function makeCore({ url, keys, breaker, clock }: CoreOptions): Core {
  const assertion = (userId: string) => sealAssertion(userId, clock(), keys)

  const core: Core = {
    async campaign(campaignId) {
      const headers = { 'Tidegate-Assertion': assertion('') }
      const signal = AbortSignal.timeout(limits.coreTimeoutMs)
      const response = await send(`${url}/internal/v1/campaigns/${campaignId}`, { headers }, signal)
      if (response.status === 404) return undefined
      if (response.status !== 200) throw unexpected('campaign', response.status)
      const body: unknown = await response.json().catch((error) => {
        throw new Away('core: campaign: no JSON', error)
      })
      if (!isSnapshot(body) || body.id !== campaignId) throw new Away('core: campaign: unexpected answer')
      return body
    },

    async ask(path, type, userId, request) {
      const headers: Record<string, string> = { 'Tidegate-Assertion': assertion(userId) }
      const lastEventId = request.headers.get('Last-Event-ID')
      if (lastEventId !== null) headers['Last-Event-ID'] = lastEventId
      return checked(await sendInTime(url + path, { headers }, request.signal), type)
    },

    async tell(path, body, userId, request) {
      const headers = { 'Tidegate-Assertion': assertion(userId), 'Content-Type': 'application/json' }
      const init = { method: 'POST', headers, body: JSON.stringify(body) }
      return checked(await sendInTime(url + path, init, request.signal), 'application/json')
    },

    async remove(path, userId, request) {
      const init = { method: 'DELETE', headers: { 'Tidegate-Assertion': assertion(userId) } }
      return checked(await sendInTime(url + path, init, request.signal), 'application/json')
    },
  }

  /** A client that has left broke its own call. */
  const guard = (work: () => Promise<Response>, request: Request) =>
    breaker.run(work, (error) => isNoAnswer(error) && !request.signal.aborted)

  return {
    campaign: (campaignId) => breaker.run(() => core.campaign(campaignId), isNoAnswer),
    ask: (path, type, userId, request) => guard(() => core.ask(path, type, userId, request), request),
    tell: (path, body, userId, request) => guard(() => core.tell(path, body, userId, request), request),
    remove: (path, userId, request) => guard(() => core.remove(path, userId, request), request),
  }
}

const isNoAnswer = (error: unknown) => error instanceof NoAnswer

/** What a proxy says when the core behind it does not answer. */
const proxyStatuses = [502, 503, 504]

function unexpected(what: string, status: number): Away {
  const message = `core: unexpected ${what}, HTTP ${status}`
  return proxyStatuses.includes(status) ? new NoAnswer(message) : new Away(message)
}

/** @throws Away unless it is 200 with this type of content, or the core's own refusal. */
function checked(response: Response, type: string): Response {
  if (hasType(response, 'application/problem+json')) {
    // The core refuses what the edge vouches for: our keys differ. No login would help the client.
    if (response.status === 401) throw new Away('core: the assertion was refused')
    return response
  }
  if (response.status !== 200 || !hasType(response, type)) throw unexpected('answer', response.status)
  return response
}

function hasType(response: Response, type: string): boolean {
  return response.headers.get('Content-Type')?.startsWith(type) === true
}

async function send(url: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
  try {
    return await fetch(url, { ...init, signal, redirect: 'manual' })
  } catch (error) {
    throw new NoAnswer('core: no answer', error)
  }
}

/** The deadline is for the headers only: a stream's body may take long. */
async function sendInTime(url: string, init: RequestInit, client: AbortSignal) {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), limits.coreTimeoutMs)
  try {
    return await send(url, init, AbortSignal.any([client, deadline.signal]))
  } finally {
    clearTimeout(timer)
  }
}

const states = ['DRAFT', 'IN_REVIEW', 'APPROVED', 'ACTIVE', 'PAUSED', 'ENDED', 'VOIDED']

/** Checks what the gate reckons with; the rest is shown as it is. */
function isSnapshot(body: unknown): body is CampaignSnapshot {
  if (typeof body !== 'object' || body === null) return false
  const { id, name, state, starts_at_ms, ends_at_ms, bucket_count } = body as Record<string, unknown>
  return (
    typeof id === 'string' &&
    typeof name === 'string' &&
    states.includes(state as string) &&
    Number.isSafeInteger(starts_at_ms) &&
    Number.isSafeInteger(ends_at_ms) &&
    Number.isSafeInteger(bucket_count) &&
    (bucket_count as number) >= 1 &&
    (bucket_count as number) <= limits.bucketsMax
  )
}
