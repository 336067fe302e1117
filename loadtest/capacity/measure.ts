import { cpus } from 'node:os'
import { drainSpeed } from '../bench/drain.ts'
import { arbiterCost } from '../bench/lua.ts'
import { measureStreams } from '../bench/sse.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { gatherShoppers } from '../traffic/shoppers.ts'
import { callMsOf } from './batches.ts'
import type { Costs, UnitCosts } from './costs.ts'
import { perClaimAndCall } from './fit.ts'
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
 * Unit costs, measured on the spot in about a minute by phases that each drive one thing, on the whole stack. What a
 * claim costs, and what the call that it travels in, follows from two phases: many claims in few calls, and each claim
 * in a call of its own. What all parts take at rest is taken off everywhere.
 */

const manyClaims = 12_000
const manyMs = 4_000
/** The lots are sent in turn, so that a noisy moment of the machine weighs on all of them. */
const turns = 2
const fewPerSecond = 250
const fewSeconds = 2
/** Of what the machine takes: durations are looked at when it is calm and when it is busy. */
const shares = { calm: 0.25, busy: 0.6 }
const liveSeconds = 3
const idleSeconds = 2.5
const streams = 2_000
const drainClaims = 20_000

type ByProcess = Readonly<Record<ProcessName, number>>
type Base = ByProcess & { readonly commands: number }

/** Claims that were accepted and became coupons, and what that took. */
interface Lot {
  readonly claims: number
  readonly calls: number
  readonly drainBatches: number
  /** Beyond what all take at rest. */
  readonly us: ByProcess
  readonly commands: number
  /** While claims were sent. */
  readonly sendSeconds: number
  readonly id: string
  readonly requests: readonly Buffer[]
}

export async function measureCosts(rig: Rig, say: (line: string) => void): Promise<Costs> {
  const warm = await rig.campaign(6_000)
  const warmUp = requestsOf(rig, warm, 6_000)
  await rig.settled(warm, total(await sendClosed(rig.client, warmUp, 6_000)))
  say('costs: at rest')
  const base = await measureIdle(rig)
  say('costs: tokens')
  const token = await measureTokens(rig, base)
  const lots = await measureLots(rig, base, say)
  const { many, calm, busy, claimsPerSecond } = lots
  say('costs: repetitions, sold out, polls')
  const replay = await measureReplays(rig, base, many)
  const soldOut = await measureSoldOut(rig, base)
  const poll = await measurePolls(rig, base, many)
  const answer = await rig.client.send(busy.requests[0]!)
  say('costs: a full log')
  const arbiter = await arbiterCost()
  const commandsPerCall = Math.round(arbiter.commands_per_claim_32 * 32)
  const couponsPerSecond = await drainSpeed(drainClaims)
  say(`costs: ${streams} event streams`)
  const stream = await measureStreams(streams, 1, () => undefined)
  const unit: UnitCosts = {
    ...sharesOf(lots.all),
    ...replay,
    ...soldOut,
    ...token,
    ...poll,
    coupons_per_second: couponsPerSecond,
    commands_per_accepting_call: commandsPerCall,
    commands_per_drain_batch: commandsPerBatch(joined(calm, busy), commandsPerCall),
    commands_per_second_idle: base.commands,
    worker_us_per_second_idle: base.worker,
    gateway_us_per_second_idle: base.gateway,
    redis_us_per_second_idle: base.redis,
    core_us_per_second_idle: base.core,
    postgres_us_per_second_idle: base.postgres,
    redis_bytes_per_acceptance: arbiter.bytes_per_claim,
    kib_per_stream: Math.max(stream.kb_per_connection, stream.heap_kb_per_connection),
    answer_bytes: Buffer.byteLength(answer.head) + 4 + Buffer.byteLength(answer.body),
  }
  return {
    unit: rounded(unit),
    local: rounded({
      calm_share: shares.calm,
      busy_share: shares.busy,
      calm_call_ms: callMs(calm),
      busy_call_ms: callMs(busy),
      calm_drain_batch_ms: drainBatchMs(calm),
      busy_drain_batch_ms: drainBatchMs(busy),
      claims_per_second: claimsPerSecond,
      driver_us_per_request: many.us.driver / many.claims,
    }),
    measured_at: new Date().toISOString(),
    where: `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}`,
  }
}

function rounded<T extends Readonly<Record<string, number>>>(values: T): T {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, Math.round(value * 100) / 100]),
  ) as T
}

function eachProcess(of: (name: ProcessName) => number): ByProcess {
  return Object.fromEntries(processes.map((name) => [name, of(name)])) as ByProcess
}

const requestsOf = (rig: Rig, campaignId: string, count: number) =>
  rig.claims(campaignId, count).map(({ request }) => request)

/** µs of each process beyond what it takes at rest. */
const beyond = (span: Span, base: Base): ByProcess =>
  eachProcess((name) => Math.max(0, span.cpu[name] * 1e6 - base[name] * span.seconds))

function expectAll(sent: Sent, ...codes: string[]): void {
  const expected = codes.reduce((sum, code) => sum + (sent[code] ?? 0), 0)
  // A claim without an answer may have been accepted all the same: too many, and no cost can be told.
  if (expected < total(sent) * 0.95)
    throw new Error(`${codes.join(' or ')} was to be measured; the answers: ${JSON.stringify(sent)}`)
}

async function measureIdle(rig: Rig): Promise<Base> {
  const span = await rig.span(() => new Promise((resolve) => setTimeout(resolve, idleSeconds * 1_000)))
  const each = eachProcess((name) => (name === 'driver' ? 0 : (span.cpu[name] * 1e6) / span.seconds))
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

/** Claims in calls of many sizes: as fast as they go, one at a time, and at two rates between. */
async function measureLots(rig: Rig, base: Base, say: (line: string) => void) {
  const all: Lot[] = []
  const [many, few, calm, busy]: Lot[][] = [[], [], [], []]
  for (let turn = 1; turn <= turns; turn++) {
    say(`costs: claims in large calls, ${turn}/${turns}`)
    many!.push(await lot(rig, base, manyClaims, (requests) => sendClosed(rig.client, requests, manyMs)))
    const { claims, sendSeconds } = many!.reduce(joined)
    const most = claims / sendSeconds
    say(`costs: claims in calls of one, ${turn}/${turns}`)
    few!.push(await lotAt(rig, base, fewPerSecond, fewSeconds))
    say(`costs: claims at two rates between, ${turn}/${turns}`)
    calm!.push(await lotAt(rig, base, most * shares.calm, liveSeconds))
    busy!.push(await lotAt(rig, base, most * shares.busy, liveSeconds))
  }
  all.push(...many!, ...few!, ...calm!, ...busy!)
  const fast = many!.reduce(joined)
  return {
    all,
    many: fast,
    calm: calm!.reduce(joined),
    busy: busy!.reduce(joined),
    claimsPerSecond: fast.claims / fast.sendSeconds,
  }
}

/** A campaign's claims until their coupons are told of. */
async function lot(
  rig: Rig,
  base: Base,
  claims: number,
  send: (requests: readonly Buffer[]) => Promise<Sent>,
): Promise<Lot> {
  const id = await rig.campaign(Math.round(claims))
  const requests = requestsOf(rig, id, Math.round(claims))
  let sendSeconds = 0
  const span = await rig.span(async () => {
    const began = performance.now()
    const sent = await send(requests)
    sendSeconds = (performance.now() - began) / 1_000
    await rig.settled(id, sent['ACCEPTED'] ?? 0)
    return sent
  })
  expectAll(span.result, 'ACCEPTED')
  return {
    claims: total(span.result),
    calls: span.byCommand['xadd'] ?? 0,
    drainBatches: Math.max(1, span.byCommand['xack'] ?? 1),
    us: beyond(span, base),
    commands: span.commands - base.commands * span.seconds,
    sendSeconds,
    id,
    requests: requests.slice(0, total(span.result)),
  }
}

function lotAt(rig: Rig, base: Base, perSecond: number, seconds: number): Promise<Lot> {
  return lot(rig, base, perSecond * seconds, (requests) => sendOpen(rig.client, requests, perSecond))
}

const callMs = ({ claims, calls, sendSeconds }: Lot) => callMsOf(claims / sendSeconds, claims / calls)

/** The drain has two transactions at work as well, and what comes meanwhile forms the next. */
const drainBatchMs = ({ calls, drainBatches, sendSeconds }: Lot) =>
  callMsOf(calls / sendSeconds, calls / drainBatches)

const commandsPerBatch = ({ commands, calls, drainBatches }: Lot, perCall: number) =>
  Math.max(0, commands - calls * perCall) / drainBatches

function joined(a: Lot, b: Lot): Lot {
  return {
    ...b,
    claims: a.claims + b.claims,
    calls: a.calls + b.calls,
    drainBatches: a.drainBatches + b.drainBatches,
    us: eachProcess((name) => a.us[name] + b.us[name]),
    commands: a.commands + b.commands,
    sendSeconds: a.sendSeconds + b.sendSeconds,
  }
}

/** Claims and calls at the gate, coupons and transactions behind it, told apart. */
function sharesOf(lots: readonly Lot[]) {
  const atGate = (name: ProcessName) =>
    perClaimAndCall(lots.map(({ claims, calls, us }) => ({ claims, calls, us: us[name] })))
  const behind = (name: ProcessName) =>
    perClaimAndCall(
      lots.map(({ claims, drainBatches, us }) => ({ claims, calls: drainBatches, us: us[name] })),
    )
  const [worker, gateway, redis] = [atGate('worker'), atGate('gateway'), atGate('redis')]
  const [core, postgres] = [behind('core'), behind('postgres')]
  return {
    worker_us_per_claim: worker.claim,
    worker_us_per_call: worker.call,
    gateway_us_per_claim: gateway.claim,
    gateway_us_per_call: gateway.call,
    redis_us_per_claim: redis.claim,
    redis_us_per_call: redis.call,
    core_us_per_coupon: core.claim,
    core_us_per_drain_batch: core.call,
    postgres_us_per_coupon: postgres.claim,
    postgres_us_per_drain_batch: postgres.call,
  }
}

async function measureReplays(rig: Rig, base: Base, { requests }: Lot) {
  const span = await rig.span(() => sendClosed(rig.client, requests, manyMs))
  expectAll(span.result, 'ACCEPTED')
  const count = total(span.result)
  const us = beyond(span, base)
  return {
    worker_us_per_replay: us.worker / count,
    gateway_us_per_replay: us.gateway / count,
    redis_us_per_replay: us.redis / count,
    commands_per_other_call:
      (span.commands - base.commands * span.seconds) / Math.max(1, span.gatewayRequests),
  }
}

async function measureSoldOut(rig: Rig, base: Base) {
  const id = await rig.campaign(1)
  await sendClosed(rig.client, requestsOf(rig, id, 400), 5_000)
  const requests = requestsOf(rig, id, 8_000)
  const span = await rig.span(() => sendClosed(rig.client, requests, manyMs))
  expectAll(span.result, 'SOLD_OUT')
  return { worker_us_per_sold_out: beyond(span, base).worker / total(span.result) }
}

async function measurePolls(rig: Rig, base: Base, { requests }: Lot) {
  const polls = await pollsOf(rig, requests.slice(0, 1_500))
  const span = await rig.span(() => sendClosed(rig.client, polls, manyMs))
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
  const polls: Buffer[] = []
  await closedLoop(requests.length, 32, async (i) => {
    const { body } = await rig.client.send(requests[i]!)
    const { status_url: path } = JSON.parse(body) as { status_url?: string }
    if (path !== undefined) polls.push(rig.client.encode('GET', path))
  })
  return polls
}
