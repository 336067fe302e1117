import postgres from 'postgres'
import type { Stack } from '../../stack/stack.ts'
import { audit, type Told, type Verdict } from '../audit/audit.ts'
import { billedCommands } from '../measure/billing.ts'
import { Latencies } from '../measure/percentiles.ts'
import { openCampaign } from '../traffic/campaign.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop, openLoop } from '../traffic/openLoop.ts'
import { encodeClaim, gatherShoppers, type Shopper } from '../traffic/shoppers.ts'

export interface FlashWish {
  users: number
  quota: number
  /** Claims a second; undefined: 70 % of what a rehearsal shows the system to take. */
  perSecond: number | undefined
  connections: number
  say(line: string): void
  /** Rewrites one line of progress. */
  progress(line: string): void
}

export interface FlashReport {
  offered: number
  accepted: number
  delivered: number
  refused: Record<string, number>
  errors: number
  oversold: number
  lost: number
  duplicates: number
  identity_holds: boolean
  accept_p50_ms: number
  accept_p99_ms: number
  deliver_p50_ms: number
  deliver_p99_ms: number
  commands_per_claim: number
  capacity_per_s: number
  rate_per_s: number
  seconds: number
  identity: Record<string, number>
  violations: string[]
}

const rehearsalUsers = 3000

/** A whole flash claim: rehearsal, campaign, tokens before the opening, the flood, delivery, audit. */
export async function runFlash(stack: Stack, wish: FlashWish): Promise<FlashReport> {
  const client = new HttpClient(stack.endpoints.edge, wish.connections)
  try {
    const capacity = wish.perSecond === undefined ? await rehearse(stack, client, wish) : 0
    const perSecond = wish.perSecond ?? Math.max(100, Math.round(capacity * 0.7))
    const startsAtMs = Date.now() + 5000 + wish.users
    const campaignId = await openCampaign(stack, {
      name: `Flash of ${wish.quota}`,
      quota: wish.quota,
      startsAtMs,
      endsAtMs: startsAtMs + 3_600_000,
    })
    const shoppers = await gatherShoppers(stack, client, campaignId, wish.users, (done) =>
      wish.progress(
        `claim tokens ${done}/${wish.users}, opening ${new Date(startsAtMs).toISOString().slice(11, 19)}`,
      ),
    )
    await waitUntilOpen(startsAtMs, wish)
    const flood = await sendFlood(stack, client, campaignId, shoppers, perSecond, wish)
    await waitDelivered(stack, campaignId, flood.told.length, wish)
    await checkReplays(client, campaignId, flood, wish)
    const delivery = await deliveryTimes(stack, campaignId)
    const verdict = await audit({
      databaseUrl: stack.endpoints.postgres,
      redisUrl: stack.endpoints.redis,
      campaignId,
      told: flood.told,
    })
    return report(wish, capacity, perSecond, flood, delivery, verdict)
  } finally {
    client.close()
  }
}

/** What the system takes when 64 clients never wait: the yardstick for the rate of the run itself. */
async function rehearse(stack: Stack, client: HttpClient, wish: FlashWish): Promise<number> {
  const campaignId = await openCampaign(stack, {
    name: 'Rehearsal',
    quota: rehearsalUsers,
    startsAtMs: Date.now(),
    endsAtMs: Date.now() + 3_600_000,
  })
  const shoppers = await gatherShoppers(stack, client, campaignId, rehearsalUsers, (done) =>
    wish.progress(`rehearsal: claim tokens ${done}/${rehearsalUsers}`),
  )
  await untilOpen(client, campaignId, shoppers[0]!)
  const began = performance.now()
  await closedLoop(rehearsalUsers, wish.connections, async (i) => {
    await client.send(encodeClaim(client, campaignId, shoppers[i]!))
  })
  const perSecond = (rehearsalUsers * 1000) / (performance.now() - began)
  await waitDelivered(stack, campaignId, undefined, wish)
  wish.say(`rehearsal: ${Math.round(perSecond)} claims/s with ${wish.connections} connections`)
  return perSecond
}

/** The guardian opens a new campaign's gate within a second or so. */
async function untilOpen(client: HttpClient, campaignId: string, shopper: Shopper): Promise<void> {
  const end = Date.now() + 10_000
  for (;;) {
    const reply = await client.send(encodeClaim(client, campaignId, shopper))
    if (reply.status === 202) return
    if (Date.now() > end) throw new Error(`the campaign does not open: ${reply.status} ${reply.body}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function waitUntilOpen(startsAtMs: number, wish: FlashWish): Promise<void> {
  while (Date.now() < startsAtMs) {
    wish.progress(`opens in ${Math.ceil((startsAtMs - Date.now()) / 1000)} s`)
    await new Promise((resolve) => setTimeout(resolve, Math.min(250, Math.max(1, startsAtMs - Date.now()))))
  }
}

interface Flood {
  offered: number
  refused: Record<string, number>
  errors: number
  told: (Told & { body: string; shopper: Shopper })[]
  latencies: Latencies
  commands: number
  seconds: number
}

async function sendFlood(
  stack: Stack,
  client: HttpClient,
  campaignId: string,
  shoppers: readonly Shopper[],
  perSecond: number,
  wish: FlashWish,
): Promise<Flood> {
  const requests = shoppers.map((shopper) => encodeClaim(client, campaignId, shopper))
  const flood: Flood = {
    offered: 0,
    refused: {},
    errors: 0,
    told: [],
    latencies: new Latencies(),
    commands: 0,
    seconds: 0,
  }
  const before = await billedCommands(stack)
  const began = performance.now()
  const ticker = setInterval(
    () =>
      wish.progress(
        `offered ${flood.offered}, accepted ${flood.told.length}, refused ${JSON.stringify(flood.refused)}`,
      ),
    250,
  )
  await openLoop(shoppers.length, perSecond, async (i, dueAt) => {
    flood.offered++
    try {
      const reply = await client.send(requests[i]!)
      flood.latencies.record(performance.now() - dueAt)
      const body = JSON.parse(reply.body) as { request_id: string; status: unknown; code?: string }
      if (reply.status === 202) {
        flood.told.push({
          userId: shoppers[i]!.userId,
          requestId: body.request_id,
          body: reply.body,
          shopper: shoppers[i]!,
        })
      } else if (body.code !== undefined && (reply.status < 500 || reply.status === 503)) {
        flood.refused[body.code] = (flood.refused[body.code] ?? 0) + 1
      } else flood.errors++
    } catch {
      flood.errors++
    }
  })
  clearInterval(ticker)
  flood.seconds = (performance.now() - began) / 1000
  flood.commands = (await billedCommands(stack)) - before
  return flood
}

/** Until every acceptance is settled in the database, or a minute passed without any progress. */
async function waitDelivered(
  stack: Stack,
  campaignId: string,
  accepted: number | undefined,
  wish: FlashWish,
): Promise<void> {
  const sql = postgres(stack.endpoints.postgres, { max: 1, onnotice: () => undefined })
  try {
    let last = -1
    let since = Date.now()
    for (;;) {
      const [row] = await sql`
        SELECT count(*) FILTER (WHERE status IN ('DELIVERED', 'REJECTED'))::int AS settled,
               (SELECT count(*)::int FROM outbox o JOIN claims c ON c.request_id = o.request_id
                WHERE c.campaign_id = ${campaignId} AND o.published_at IS NULL) AS unpublished
        FROM claims WHERE campaign_id = ${campaignId}`
      const settled = Number(row!['settled'])
      wish.progress(`delivered ${settled}${accepted === undefined ? '' : `/${accepted}`}`)
      if (accepted !== undefined && settled >= accepted && Number(row!['unpublished']) === 0) return
      if (settled !== last) {
        last = settled
        since = Date.now()
      }
      if (accepted === undefined && Date.now() - since > 1500) return
      if (Date.now() - since > 60_000) return
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

/** Invariant 4 from outside: the same claim again has the very same answer. */
async function checkReplays(
  client: HttpClient,
  campaignId: string,
  flood: Flood,
  wish: FlashWish,
): Promise<void> {
  let different = 0
  const sample = flood.told.slice(0, 200)
  await closedLoop(sample.length, 16, async (i) => {
    const { shopper, body } = sample[i]!
    const reply = await client.send(encodeClaim(client, campaignId, shopper))
    if (reply.status !== 202 || reply.body !== body) different++
  })
  if (different > 0) {
    wish.say(`${different} of ${sample.length} repeated claims had another answer`)
    flood.errors += different
  }
}

/** From the arbiter's instant of acceptance to the instant when the result was published to listeners. */
async function deliveryTimes(
  stack: Stack,
  campaignId: string,
): Promise<{ delivered: number; latencies: Latencies }> {
  const sql = postgres(stack.endpoints.postgres, { max: 1, onnotice: () => undefined })
  try {
    const rows = await sql`
      SELECT extract(epoch FROM (o.published_at - c.accepted_at)) * 1000 AS ms
      FROM claims c JOIN outbox o ON o.request_id = c.request_id
      WHERE c.campaign_id = ${campaignId} AND o.type = 'claim.delivered' AND o.published_at IS NOT NULL`
    const latencies = new Latencies()
    for (const row of rows) latencies.record(Number(row['ms']))
    return { delivered: rows.length, latencies }
  } finally {
    await sql.end({ timeout: 5 })
  }
}

function report(
  wish: FlashWish,
  capacity: number,
  perSecond: number,
  flood: Flood,
  delivery: { delivered: number; latencies: Latencies },
  verdict: Verdict,
): FlashReport {
  const violations = [...verdict.violations]
  if (flood.offered !== wish.users) violations.push(`offered ${flood.offered} of ${wish.users}`)
  return {
    offered: flood.offered,
    accepted: flood.told.length,
    delivered: delivery.delivered,
    refused: flood.refused,
    errors: flood.errors,
    oversold: verdict.oversold,
    lost: verdict.lost,
    duplicates: verdict.duplicates,
    identity_holds: verdict.identity_holds,
    accept_p50_ms: flood.latencies.at(50),
    accept_p99_ms: flood.latencies.at(99),
    deliver_p50_ms: delivery.latencies.at(50),
    deliver_p99_ms: delivery.latencies.at(99),
    commands_per_claim: Math.round((flood.commands / Math.max(1, flood.offered)) * 1000) / 1000,
    capacity_per_s: Math.round(capacity),
    rate_per_s: perSecond,
    seconds: Math.round(flood.seconds * 100) / 100,
    identity: verdict.identity,
    violations,
  }
}
