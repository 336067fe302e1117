import type { CampaignView } from '../../../schema/view.ts'
import type { Reading } from './clock.ts'
import type { Refused, Settled } from './model.ts'

/** The edge's public calls (DESIGN §7), same origin. Nothing here throws: what went wrong is part of the answer. */

export interface ClaimToken {
  claim_token: string
  not_before: string
  expires_at: string
}

export interface Acceptance {
  request_id: string
  accepted_at: string
  /** Same-origin paths that carry their own ticket. */
  status_url: string
  events_url: string
  poll_after_ms: number
  /** Proof of the acceptance, kept for the case that the service loses its memory of it. */
  receipt: string
}

/** Nothing came back, or nothing that says what happened. */
export interface Lost {
  kind: 'lost'
}
export type Refusal = { kind: 'refused'; refused: Refused }
export type ViewAnswer = { kind: 'view'; view: CampaignView } | { kind: 'unchanged' } | Refusal | Lost
export type TokenAnswer = { kind: 'token'; token: ClaimToken } | Refusal | Lost
export type ClaimAnswer =
  | { kind: 'accepted'; acceptance: Acceptance }
  | { kind: 'settled'; settled: Settled }
  | Refusal
  | Lost
export type StatusAnswer = { kind: 'status'; settled: Settled; pollAfterMs?: number } | Refusal | Lost

export interface Api {
  view(campaignId: string): Promise<ViewAnswer>
  /** @param answer the answer to a challenge, where the service asked for one. */
  token(campaignId: string, login: string, answer?: string): Promise<TokenAnswer>
  claim(campaignId: string, token: string, key: string): Promise<ClaimAnswer>
  /** @param url the acceptance's `status_url`; the login helps when its ticket has run out. */
  status(url: string, login: string | undefined): Promise<StatusAnswer>
}

interface Wire {
  response: Response
  // biome-ignore lint/suspicious/noExplicitAny: parsed JSON of our own origin, read field by field
  body: any
}

const timeoutMs = 8_000
/** Longer than the edge's own deadline, so that its OUTCOME_UNKNOWN arrives before we give up. */
const claimTimeoutMs = 6_000

const lost: Lost = { kind: 'lost' }

/**
 * @param deviceId goes along with tokens and claims, which must name the same one.
 * @param learn is told the server's time with every answer that shows it.
 */
export function httpApi(deviceId: string, learn: (reading: Reading) => void): Api {
  let etag: string | undefined

  async function call(path: string, init: RequestInit, limitMs: number): Promise<Wire | undefined> {
    const sentAt = Date.now()
    try {
      const signal = AbortSignal.timeout(limitMs)
      const response = await fetch(path, { cache: 'no-store', ...init, signal })
      const receivedAt = Date.now()
      const body = response.status === 304 ? undefined : await response.json().catch(() => undefined)
      learn(readingOf(sentAt, receivedAt, response, body))
      return { response, body }
    } catch {
      return undefined
    }
  }

  const device = { 'Device-Id': deviceId }
  const campaign = (id: string) => `/v1/campaigns/${encodeURIComponent(id)}`

  return {
    async view(id) {
      const wire = await call(campaign(id), etag ? { headers: { 'If-None-Match': etag } } : {}, timeoutMs)
      if (wire?.response.status === 304) return { kind: 'unchanged' }
      if (!wire?.response.ok || typeof wire.body?.starts_at !== 'string') return refusalOf(wire)
      etag = wire.response.headers.get('ETag') ?? undefined
      return { kind: 'view', view: wire.body }
    },
    async token(id, login, answer) {
      const solved = answer === undefined ? {} : { 'Turnstile-Response': answer }
      const headers = { ...device, ...solved, Authorization: `Bearer ${login}` }
      const wire = await call(`${campaign(id)}/claim-tokens`, { method: 'POST', headers }, timeoutMs)
      return wire?.response.ok && wire.body?.claim_token
        ? { kind: 'token', token: wire.body }
        : refusalOf(wire)
    },
    async claim(id, token, key) {
      const headers = { ...device, 'Claim-Token': token, 'Idempotency-Key': key }
      // keepalive: the claim is still sent when the reader leaves in the same moment.
      const init = { method: 'POST', headers, keepalive: true }
      const wire = await call(`${campaign(id)}/claims`, init, claimTimeoutMs)
      if (!wire?.response.ok || !wire.body?.request_id) return refusalOf(wire)
      return wire.body.status === 'DELIVERED'
        ? { kind: 'settled', settled: settledOf(wire.body) }
        : { kind: 'accepted', acceptance: wire.body }
    },
    async status(url, login) {
      const wire = await call(url, login ? { headers: { Authorization: `Bearer ${login}` } } : {}, timeoutMs)
      if (!wire?.response.ok || !wire.body?.status) return refusalOf(wire)
      const pollAfterMs = wire.body.poll_after_ms
      const settled = settledOf(wire.body)
      return { kind: 'status', settled, ...(typeof pollAfterMs === 'number' ? { pollAfterMs } : {}) }
    },
  }
}

/** A claim's result from a status answer or from an event's data. */
// biome-ignore lint/suspicious/noExplicitAny: see Wire
export function settledOf(body: any): Settled {
  switch (body.status) {
    case 'DELIVERED': {
      const validUntil = typeof body.valid_until === 'string' ? { validUntil: body.valid_until } : {}
      return { status: 'DELIVERED', coupon: { couponId: String(body.coupon_id), ...validUntil } }
    }
    case 'REJECTED':
      return { status: 'REJECTED', reason: String(body.reason) }
    case 'REVIEW':
      return { status: 'REVIEW' }
    default:
      return { status: 'PROCESSING' }
  }
}

/**
 * A server error without a code of ours, and an answer that can't be read, may stand for a claim that was
 * accepted: both count as lost, which is retried with the same key.
 */
function refusalOf(wire: Wire | undefined): Refusal | Lost {
  if (wire === undefined || wire.response.ok) return lost
  const { response, body } = wire
  const code = typeof body?.code === 'string' ? body.code : ''
  if (response.status >= 500 && (code === '' || code === 'INTERNAL')) return lost
  const refused: Refused = {
    code: code || (response.status === 429 ? 'RATE_LIMITED' : String(response.status)),
  }
  const seconds = Number(response.headers.get('Retry-After'))
  const retryAfterMs = body?.retry_after_ms ?? (seconds > 0 ? seconds * 1000 : undefined)
  if (typeof retryAfterMs === 'number') refused.retryAfterMs = retryAfterMs
  if (typeof body?.starts_at === 'string') refused.startsAt = body.starts_at
  if (typeof body?.site_key === 'string') refused.siteKey = body.site_key
  if (typeof body?.action === 'string') refused.action = body.action
  return { kind: 'refused', refused }
}

// biome-ignore lint/suspicious/noExplicitAny: see Wire
function readingOf(sentAt: number, receivedAt: number, response: Response, body: any): Reading {
  const reading: Reading = { sentAt, receivedAt }
  const serverTime = Date.parse(body?.server_time)
  if (!Number.isNaN(serverTime)) reading.serverTime = serverTime
  const date = Date.parse(response.headers.get('Date') ?? '')
  if (!Number.isNaN(date)) reading.date = date + Number(response.headers.get('Age') ?? 0) * 1000
  return reading
}
