import { cpus } from 'node:os'
import { measureStreams } from '../bench/sse.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { gatherShoppers } from '../traffic/shoppers.ts'
import { callMsOf } from './batches.ts'
import type { Costs, UnitCosts } from './costs.ts'
import { perClaimAndCall } from './fit.ts'
import { platform } from './limits.ts'
import {
  type ProcessName,
  processes,
  type Rig,
  type Sent,
  type Span,
  sendClosed,
  sendOpen,
  total,
} from './rig.ts'

/**
 * Unit costs, measured on the spot in about a minute, by phases that each drive one thing. While claims are measured
 * the core is stopped (SIGSTOP), within the life of a lease: so accepting and draining share no phase.
 */

const perPhase = 2_500
const phases = 3
const fewPerSecond = 250
const fewSeconds = 3
const liveShare = 0.35
const liveSeconds = 4
const idleSeconds = 2.5
const streams = 2_000
/** Ends well before the lease does, which was renewed up to a second before. */
const pausedMs = 3_200

export interface Measured {
  readonly costs: Costs
  /** Claims a second that the stack took with its core stopped and all connections busy. */
  readonly claimsPerSecond: number
}

type Base = Readonly<Record<ProcessName, number>> & { readonly commands: number }

export async function measureCosts(rig: Rig, say: (line: string) => void): Promise<Measured> {
  const warm = await rig.campaign(3_000)
  await sendClosed(rig.client, requestsOf(rig.claims(warm, 3_000)), 8_000)
  await rig.settled(warm, 0)
  say('costs: at rest')
  const base = await measureIdle(rig)
  say('costs: tokens')
  const token = await measureTokens(rig, base)
  say('costs: claims in large calls, and their coupons')
  const many = await measureMany(rig, base)
  say('costs: claims in calls of one')
  const few = await measureFew(rig)
  say('costs: repetitions, sold out, polls')
  const replay = await measureReplays(rig, many.last)
  const soldOut = await measureSoldOut(rig, base)
  const poll = await measurePolls(rig, base, many.last.requests)
  say('costs: all parts at work')
  const claimsPerSecond = many.claims / many.seconds
  const live = await measureLive(rig, base, claimsPerSecond * liveShare, many.commandsPerCall)
  say(`costs: ${streams} event streams`)
  const stream = await measureStreams(streams, 1, () => undefined)
  const split = (name: ProcessName) =>
    perClaimAndCall(
      { claims: few.claims, calls: few.calls, us: few.us[name] },
      { claims: many.claims, calls: many.calls, us: many.us[name] },
    )
  const [worker, gateway, redis] = [split('worker'), split('gateway'), split('redis')]
  const unit: UnitCosts = {
    worker_us_per_claim: worker.claim,
    worker_us_per_call: worker.call,
    gateway_us_per_claim: gateway.claim,
    gateway_us_per_call: gateway.call,
    redis_us_per_claim: redis.claim,
    redis_us_per_call: redis.call,
    ...replay,
    ...soldOut,
    ...token,
    ...poll,
    ...many.coupon,
    commands_per_accepting_call: many.commandsPerCall,
    commands_per_drain_batch: live.commandsPerBatch,
    commands_per_second_idle: base.commands,
    worker_us_per_second_idle: base.worker,
    gateway_us_per_second_idle: base.gateway,
    redis_us_per_second_idle: base.redis,
    core_us_per_second_idle: base.core,
    postgres_us_per_second_idle: base.postgres,
    redis_bytes_per_acceptance: many.bytes,
    kib_per_stream: Math.max(0, stream.kb_per_connection),
    answer_bytes: many.answerBytes,
  }
  return {
    costs: {
      unit: rounded(unit),
      local: rounded({
        call_ms: live.callMs,
        drain_batch_ms: live.batchMs,
        driver_us_per_request: many.us.driver / many.claims,
      }),
      measured_at: new Date().toISOString(),
      where: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}`,
    },
    claimsPerSecond,
  }
}

function rounded<T extends Readonly<Record<string, number>>>(values: T): T {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, Math.round(value * 100) / 100]),
  ) as T
}

const requestsOf = (claims: readonly { readonly request: Buffer }[]) => claims.map(({ request }) => request)

/** µs of each process beyond what it takes at rest. */
function beyond(span: Span, base: Base): Record<ProcessName, number> {
  return Object.fromEntries(
    processes.map((name) => [name, Math.max(0, span.cpu[name] * 1e6 - base[name] * span.seconds)]),
  ) as Record<ProcessName, number>
}

async function measureIdle(rig: Rig): Promise<Base> {
  const span = await rig.span(() => new Promise((resolve) => setTimeout(resolve, idleSeconds * 1_000)))
  const each = Object.fromEntries(
    processes.map((name) => [name, name === 'driver' ? 0 : (span.cpu[name] * 1e6) / span.seconds]),
  ) as Record<ProcessName, number>
  return { ...each, commands: span.commands / span.seconds }
}

async function measureTokens(rig: Rig, base: Base) {
  const id = await rig.campaign(100)
  const count = 1_200
  const span = await rig.span(() => gatherShoppers(rig.stack, rig.client, id, count, () => undefined))
  const us = beyond(span, base)
  return {
    worker_us_per_token: us.worker / count,
    gateway_us_per_token: us.gateway / count,
    redis_us_per_token: us.redis / count,
    commands_per_token: Math.max(0, span.commands - base.commands * span.seconds) / count,
  }
}

/** Does the work while the core is stopped. @throws when a claim was answered by anything but `code` */
async function whileCoreStands(
  rig: Rig,
  code: string,
  work: () => Promise<Sent>,
): Promise<Span & { result: Sent }> {
  const core = rig.stack.part('core')
  core.pause()
  try {
    const span = await rig.span(work)
    if (span.result[code] !== total(span.result))
      throw new Error(`the costs of ${code} were to be measured; answers: ${JSON.stringify(span.result)}`)
    return span
  } finally {
    core.resume()
  }
}

interface LastCampaign {
  readonly id: string
  readonly requests: readonly Buffer[]
}

async function measureMany(rig: Rig, base: Base) {
  const spans: Span[] = []
  const drains: Span[] = []
  const speeds: number[] = []
  let claims = 0
  let last: LastCampaign = { id: '', requests: [] }
  for (let i = 0; i < phases; i++) {
    const id = await rig.campaign(perPhase)
    const requests = requestsOf(rig.claims(id, perPhase))
    const span = await whileCoreStands(rig, 'ACCEPTED', () => sendClosed(rig.client, requests, pausedMs))
    const accepted = total(span.result)
    const drain = await rig.span(async () => {
      speeds.push(await drainSpeed(rig, id, accepted))
      await rig.settled(id, accepted)
    })
    spans.push(span)
    drains.push(drain)
    claims += accepted
    last = { id, requests: requests.slice(0, accepted) }
  }
  const us = sumOf(spans)
  const drainUs = addUp(drains.map((span) => beyond(span, base)))
  const calls = spans.reduce((sum, span) => sum + (span.byCommand['xadd'] ?? 0), 0)
  const bytes = Number(await rig.redis.call('MEMORY', 'USAGE', `tg:{${last.id}:0}:users`, 'SAMPLES', '0'))
  const answer = await rig.client.send(last.requests[0]!)
  return {
    claims,
    calls,
    us,
    seconds: spans.reduce((sum, span) => sum + span.seconds, 0),
    commandsPerCall: spans.reduce((sum, span) => sum + span.commands, 0) / calls,
    coupon: {
      core_us_per_coupon: drainUs.core / claims,
      postgres_us_per_coupon: drainUs.postgres / claims,
      redis_us_per_coupon: drainUs.redis / claims,
      coupons_per_second: Math.max(...speeds),
    },
    bytes: bytes / last.requests.length,
    answerBytes: Buffer.byteLength(answer.head) + 4 + Buffer.byteLength(answer.body),
    last,
  }
}

/** Coupons a second from the first commit seen to the last. */
async function drainSpeed(rig: Rig, id: string, coupons: number): Promise<number> {
  let first: { at: number; issued: number } | undefined
  const ends = performance.now() + 30_000
  while (performance.now() < ends) {
    const [row] = await rig.sql`SELECT issued FROM campaign_stock WHERE campaign_id = ${id}`
    const now = { at: performance.now(), issued: Number(row!['issued']) }
    if (now.issued >= coupons) {
      const from = first ?? { at: now.at - 20, issued: 0 }
      return ((coupons - from.issued) * 1_000) / Math.max(1, now.at - from.at)
    }
    if (now.issued === 0) first = { at: now.at, issued: 0 }
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  throw new Error('the log was not drained')
}

function addUp(all: readonly Readonly<Record<ProcessName, number>>[]): Record<ProcessName, number> {
  return Object.fromEntries(
    processes.map((name) => [name, all.reduce((sum, one) => sum + one[name], 0)]),
  ) as Record<ProcessName, number>
}

const sumOf = (spans: readonly Span[]) =>
  addUp(
    spans.map((span) => Object.fromEntries(processes.map((name) => [name, span.cpu[name] * 1e6])) as never),
  )

async function measureFew(rig: Rig) {
  const id = await rig.campaign(perPhase)
  const requests = requestsOf(rig.claims(id, fewPerSecond * fewSeconds))
  const span = await whileCoreStands(rig, 'ACCEPTED', () => sendOpen(rig.client, requests, fewPerSecond))
  await rig.settled(id, requests.length)
  return { claims: requests.length, calls: span.byCommand['xadd'] ?? 0, us: sumOf([span]) }
}

async function measureReplays(rig: Rig, { id, requests }: LastCampaign) {
  await rig.settled(id, requests.length)
  const span = await whileCoreStands(rig, 'ACCEPTED', () => sendClosed(rig.client, requests, pausedMs))
  const count = total(span.result)
  const us = sumOf([span])
  return {
    worker_us_per_replay: us.worker / count,
    gateway_us_per_replay: us.gateway / count,
    redis_us_per_replay: us.redis / count,
    commands_per_other_call: span.commands / Math.max(1, span.byCommand['evalsha'] ?? 1),
  }
}

async function measureSoldOut(rig: Rig, base: Base) {
  const id = await rig.campaign(1)
  await sendClosed(rig.client, requestsOf(rig.claims(id, 400)), 5_000)
  const requests = requestsOf(rig.claims(id, 6_000))
  const span = await rig.span(() => sendClosed(rig.client, requests, 4_000))
  return { worker_us_per_sold_out: beyond(span, base).worker / total(span.result) }
}

async function measurePolls(rig: Rig, base: Base, requests: readonly Buffer[]) {
  const polls = await pollsOf(rig, requests.slice(0, 1_500))
  const span = await rig.span(() => sendClosed(rig.client, polls, 4_000))
  const us = beyond(span, base)
  const count = total(span.result)
  return {
    worker_us_per_poll: us.worker / count,
    core_us_per_poll: us.core / count,
    postgres_us_per_poll: us.postgres / count,
  }
}

/** Questions for the status of claims that were accepted, as their answers say where to ask. */
export async function pollsOf(rig: Rig, requests: readonly Buffer[]): Promise<Buffer[]> {
  const polls = new Array<Buffer>(requests.length)
  await closedLoop(requests.length, 32, async (i) => {
    const { body } = await rig.client.send(requests[i]!)
    const { status_url: path } = JSON.parse(body) as { status_url: string }
    polls[i] = rig.client.encode('GET', path)
  })
  return polls
}

/** At a moderate rate with all parts at work: how long calls and transactions take then. */
async function measureLive(rig: Rig, base: Base, perSecond: number, commandsPerCall: number) {
  const count = Math.round(perSecond * liveSeconds)
  const id = await rig.campaign(count)
  const requests = requestsOf(rig.claims(id, count))
  const span = await rig.span(async () => {
    await sendOpen(rig.client, requests, perSecond)
    await rig.settled(id, count)
  })
  const calls = span.byCommand['xadd'] ?? 0
  const batches = Math.max(1, span.byCommand['xack'] ?? 1)
  const rest = span.commands - calls * commandsPerCall - base.commands * span.seconds
  return {
    callMs: callMsOf(perSecond, count / calls),
    batchMs: callMsOf(
      (perSecond * calls) / count,
      Math.min(platform.entriesPerBatch.amount, calls / batches),
    ),
    commandsPerBatch: Math.max(0, rest) / batches,
  }
}
