import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buildSite } from '../../edge/site/build.ts'
import type { CampaignView } from '../../schema/view.ts'

/**
 * Stands in for the edge where a state or a timing can't be had from the real one on demand: serves the built site
 * as Workers assets do (with `_headers`, single-page fallback), and answers the API as each test says.
 */

export interface Seen {
  /** Server's clock, ms. */
  at: number
  method: string
  path: string
  headers: IncomingMessage['headers']
}

export interface Answer {
  status: number
  body?: unknown
  headers?: Record<string, string>
}

/**
 * `lose`: the request was received, and the answer breaks off on its way; `accept and lose`: it was accepted besides.
 * (Broken off after its head, since a browser repeats a request by itself when nothing at all came back.)
 */
export type Reply = Answer | 'lose' | 'accept and lose'

export interface CampaignDouble {
  id: string
  view: CampaignView
  /** What was asked about this campaign and its claims, oldest first. */
  seen: Seen[]
  /** Answers to claims in turn; when used up, a claim is accepted (the same key: the same acceptance). */
  claims: Reply[]
  tokens: Reply[]
  views: Reply[]
  /** While set, event streams are refused, and only polling is left. */
  noEvents: boolean
  /** Holds every claim until it resolves. */
  gate: Promise<void>
  /** Settles all accepted claims, and tells the open streams. */
  settle(result: { status: 'DELIVERED' | 'REJECTED' | 'REVIEW'; reason?: string }): void
  asked(method: string, tail: string): Seen[]
}

export interface Double {
  origin: string
  /** `startsInMs` from now; overrides go into the view. */
  campaign(startsInMs: number, overrides?: Partial<CampaignView>): CampaignDouble
  coupons: unknown[]
  /** How far the server's clock is ahead of this machine's, ms. */
  aheadMs: number
  close(): Promise<void>
}

export const login = (user: string) =>
  `e30.${Buffer.from(JSON.stringify({ sub: user })).toString('base64url')}.signature`

const day = 24 * 3_600_000
const types: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
}

interface Claim {
  id: string
  acceptedAt: string
  result: Record<string, unknown>
  streams: Set<ServerResponse>
}

export async function startDouble(): Promise<Double> {
  await buildSite()
  const folder = join(import.meta.dirname, '../../edge/site/public')
  const policy = await headersOf(join(folder, '_headers'))
  const campaigns = new Map<string, CampaignDouble & { byKey: Map<string, Claim> }>()
  const now = () => Date.now() + self.aheadMs

  const server = createServer((request, response) => {
    serve(request, response).catch((error) => {
      response.destroy()
      console.error(error)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const self: Double = {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    coupons: [],
    aheadMs: 0,
    campaign(startsInMs, overrides = {}) {
      const made = campaignDouble(now() + startsInMs, overrides)
      campaigns.set(made.id, made)
      return made
    },
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.setHeader('Date', new Date(now()).toUTCString())
    const url = new URL(request.url!, 'http://127.0.0.1')
    const [, version, kind, id, rest] = url.pathname.split('/')
    if (version !== 'v1') return asset(url.pathname, response)
    if (kind === 'me') return send(response, { status: 200, body: { data: self.coupons, next_cursor: null } })
    if (kind === 'claims') return claimRoute(id!, rest, request, response)
    const campaign = campaigns.get(id!)
    if (!campaign) return send(response, problem(404, 'CAMPAIGN_NOT_FOUND'))
    note(campaign, request)
    if (rest === undefined) return view(campaign, request, response)
    if (rest === 'claim-tokens') return reply(response, campaign.tokens.shift() ?? freshToken())
    await campaign.gate
    const scripted = campaign.claims.shift()
    const accepted = scripted === undefined || scripted === 'accept and lose'
    const acceptance = accepted ? accept(campaign, request.headers) : undefined
    return reply(response, scripted ?? acceptance!)
  }

  const note = (campaign: CampaignDouble, { method, url, headers }: IncomingMessage) =>
    campaign.seen.push({ at: now(), method: method!, path: url!, headers })

  function view(campaign: CampaignDouble, request: IncomingMessage, response: ServerResponse): void {
    const scripted = campaign.views.shift()
    if (scripted) {
      reply(response, scripted)
      return
    }
    const etag = `"${campaign.view.availability}-${campaign.view.starts_at}"`
    if (request.headers['if-none-match'] === etag) {
      send(response, { status: 304 })
      return
    }
    const body = { ...campaign.view, server_time: new Date(now()).toISOString() }
    send(response, { status: 200, body, headers: { ETag: etag } })
  }

  function freshToken(): Answer {
    const [not_before, expires_at] = [now(), now() + 30 * 60_000].map((at) => new Date(at).toISOString())
    return { status: 201, body: { claim_token: randomBytes(9).toString('hex'), not_before, expires_at } }
  }

  function accept(
    campaign: CampaignDouble & { byKey: Map<string, Claim> },
    headers: Seen['headers'],
  ): Answer {
    const key = String(headers['idempotency-key'])
    const known = campaign.byKey.get(key)
    const claim: Claim = known ?? {
      id: randomBytes(8).toString('hex'),
      acceptedAt: new Date(now()).toISOString(),
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

  function claimRoute(
    id: string,
    rest: string | undefined,
    request: IncomingMessage,
    response: ServerResponse,
  ) {
    for (const campaign of campaigns.values()) {
      const claim = [...campaign.byKey.values()].find((each) => each.id === id)
      if (!claim) continue
      note(campaign, request)
      if (rest === undefined) {
        return send(response, { status: 200, body: { request_id: id, ...claim.result, poll_after_ms: 300 } })
      }
      if (campaign.noEvents) return send(response, problem(503, 'UNAVAILABLE'))
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
      response.write(': here\n\n')
      claim.streams.add(response)
      tell(claim)
      return
    }
    send(response, problem(404, 'CLAIM_NOT_FOUND'))
  }

  async function asset(path: string, response: ServerResponse): Promise<void> {
    const wanted = path === '/wallet' || path === '/login' ? `${path}.html` : path
    const name = /^\/[\w/]+\.\w+$/.test(wanted) ? wanted.slice(1) : 'index.html'
    const body = await readFile(join(folder, name)).catch(() => undefined)
    if (!body) return send(response, { status: 404 })
    response.writeHead(200, { ...policy, 'Content-Type': types[name.split('.').pop()!] ?? 'text/plain' })
    response.end(body)
  }

  return self
}

function campaignDouble(startsAt: number, overrides: Partial<CampaignView>) {
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

/** Sends a final result down the claim's open streams, and ends them, as the core does. */
function tell(claim: Claim): void {
  const event = { DELIVERED: 'claim.delivered', REJECTED: 'claim.rejected' }[String(claim.result['status'])]
  if (!event) return
  for (const stream of claim.streams) {
    stream.end(
      `id: 1\nevent: ${event}\ndata: ${JSON.stringify({ request_id: claim.id, ...claim.result })}\n\n`,
    )
  }
  claim.streams.clear()
}

export function problem(status: number, code: string, extras: Record<string, unknown> = {}): Answer {
  return {
    status,
    body: {
      type: `urn:tidegate:problem:${code}`,
      title: code,
      status,
      detail: '',
      code,
      request_id: 'r',
      ...extras,
    },
    headers: { 'Content-Type': 'application/problem+json', 'Cache-Control': 'no-store' },
  }
}

function reply(response: ServerResponse, given: Reply): void {
  if (typeof given === 'object') {
    send(response, given)
    return
  }
  response.writeHead(202, { 'Content-Type': 'application/json', 'Content-Length': '500' })
  response.write('{"request_id":')
  setImmediate(() => response.destroy())
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
  response.end(body === undefined ? undefined : JSON.stringify(body))
}

async function headersOf(path: string): Promise<Record<string, string>> {
  const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line.startsWith('  '))
  return Object.fromEntries(
    lines.map(
      (line) =>
        line
          .trim()
          .split(/:\s(.*)/s)
          .slice(0, 2) as [string, string],
    ),
  )
}
