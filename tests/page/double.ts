import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buildSite } from '../../edge/site/build.ts'
import type { CampaignView } from '../../schema/view.ts'
import { problem, reply, replyOf, send } from './answers.ts'
import {
  accept,
  type CampaignDouble,
  campaignDouble,
  freshToken,
  type KeptCampaign,
  tell,
} from './campaignDouble.ts'

/**
 * Stands in for the edge where a state or a timing can't be had from the real one on demand: serves the built site
 * as Workers assets do (with `_headers`, single-page fallback), and answers the API as each test says.
 */

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

const types: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
}

export async function startDouble(): Promise<Double> {
  await buildSite()
  const folder = join(import.meta.dirname, '../../edge/site/public')
  const policy = await headersOf(join(folder, '_headers'))
  const campaigns = new Map<string, KeptCampaign>()
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
    if (rest === 'claim-tokens')
      return reply(response, (await replyOf(campaign.tokens.shift())) ?? freshToken(now()))
    await campaign.gate
    const scripted = await replyOf(campaign.claims.shift())
    const accepted = scripted === undefined || scripted === 'accept and lose'
    const acceptance = accepted ? accept(campaign, request.headers, now()) : undefined
    return reply(response, scripted ?? acceptance!)
  }

  const note = (campaign: CampaignDouble, { method, url, headers }: IncomingMessage) =>
    campaign.seen.push({ at: now(), method: method!, path: url!, headers })

  async function view(
    campaign: CampaignDouble,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    const scripted = await replyOf(campaign.views.shift())
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
