import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { CampaignView } from '../../schema/view.ts'
import type { Answer, Scripted } from './answers.ts'

/** One campaign of the double: its view, what it answers in which turn, and the claims that it accepted. */

export interface Seen {
  /** Server's clock, ms. */
  at: number
  method: string
  path: string
  headers: IncomingMessage['headers']
}

export interface CampaignDouble {
  id: string
  view: CampaignView
  /** What was asked about this campaign and its claims, oldest first. */
  seen: Seen[]
  /** Answers to claims in turn; when used up, a claim is accepted (the same key: the same acceptance). */
  claims: Scripted[]
  tokens: Scripted[]
  views: Scripted[]
  /** While set, event streams are refused, and only polling is left. */
  noEvents: boolean
  /** Holds every claim until it resolves. */
  gate: Promise<void>
  /** Settles all accepted claims, and tells the open streams. */
  settle(result: { status: 'DELIVERED' | 'REJECTED' | 'REVIEW'; reason?: string }): void
  asked(method: string, tail: string): Seen[]
}

export interface Claim {
  id: string
  acceptedAt: string
  result: Record<string, unknown>
  streams: Set<ServerResponse>
}

/** With what only the double itself looks into. */
export type KeptCampaign = CampaignDouble & { byKey: Map<string, Claim> }

const day = 24 * 3_600_000

export function campaignDouble(startsAt: number, overrides: Partial<CampaignView>): KeptCampaign {
  const id = `c${randomBytes(12).toString('hex')}`
  const byKey = new Map<string, Claim>()
  const seen: Seen[] = []
  return {
    id,
    seen,
    byKey,
    claims: [],
    tokens: [],
    views: [],
    noEvents: false,
    gate: Promise.resolve(),
    view: {
      id,
      name: 'Winter morning coffee',
      mode: 'first_come' as const,
      availability: startsAt > Date.now() ? ('upcoming' as const) : ('open' as const),
      starts_at: new Date(startsAt).toISOString(),
      ends_at: new Date(startsAt + day).toISOString(),
      server_time: '',
      per_user_limit: 1,
      benefit: {
        kind: 'amount_off' as const,
        amount: { currency: 'CNY', minor: '2000' },
        threshold: { currency: 'CNY', minor: '10000' },
      },
      validity: { kind: 'days' as const, days: 30 },
      time_zone: 'Asia/Shanghai',
      token_opens_at: new Date(startsAt - 600_000).toISOString(),
      ...overrides,
    },
    settle(result: { status: string; reason?: string }) {
      for (const claim of byKey.values()) {
        claim.result = { ...result }
        if (result.status === 'DELIVERED') {
          claim.result['coupon_id'] = `coupon-${claim.id}`
          claim.result['valid_until'] = new Date(Date.now() + 30 * day).toISOString()
        }
        tell(claim)
      }
    },
    asked: (method: string, tail: string) =>
      seen.filter((each) => each.method === method && each.path.split('?')[0]!.endsWith(tail)),
  }
}

export function freshToken(now: number): Answer {
  const [not_before, expires_at] = [now, now + 30 * 60_000].map((at) => new Date(at).toISOString())
  return { status: 201, body: { claim_token: randomBytes(9).toString('hex'), not_before, expires_at } }
}

export function accept(campaign: KeptCampaign, headers: Seen['headers'], now: number): Answer {
  const key = String(headers['idempotency-key'])
  const known = campaign.byKey.get(key)
  const claim: Claim = known ?? {
    id: randomBytes(8).toString('hex'),
    acceptedAt: new Date(now).toISOString(),
    result: { status: 'PROCESSING' },
    streams: new Set(),
  }
  campaign.byKey.set(key, claim)
  return {
    status: 202,
    headers: known ? { 'Idempotency-Replayed': 'true' } : {},
    body: {
      request_id: claim.id,
      status: 'ACCEPTED',
      accepted_at: claim.acceptedAt,
      status_url: `/v1/claims/${claim.id}?ticket=t`,
      events_url: `/v1/claims/${claim.id}/events?ticket=t`,
      poll_after_ms: 300,
      receipt: 'receipt',
    },
  }
}

/** Sends a final result down the claim's open streams, and ends them, as the core does. */
export function tell(claim: Claim): void {
  const event = { DELIVERED: 'claim.delivered', REJECTED: 'claim.rejected' }[String(claim.result['status'])]
  if (!event) return
  for (const stream of claim.streams) {
    stream.end(
      `id: 1\nevent: ${event}\ndata: ${JSON.stringify({ request_id: claim.id, ...claim.result })}\n\n`,
    )
  }
  claim.streams.clear()
}
