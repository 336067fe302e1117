import { callMsOf } from './batches.ts'
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

/** Claims sent in lots whose calls are of different sizes, and what they and their coupons took. */

const manyClaims = 12_000
export const manyMs = 4_000
/** The lots are sent in turn, so that a noisy moment of the machine weighs on all of them. */
const turns = 2
const fewPerSecond = 250
const fewSeconds = 2
/** Of what the machine takes: durations are looked at when it is calm and when it is busy. */
export const shares = { calm: 0.25, busy: 0.6 }
const liveSeconds = 3
export type ByProcess = Readonly<Record<ProcessName, number>>
export type Base = ByProcess & { readonly commands: number }

/** Claims that were accepted and became coupons, and what that took. */
export interface Lot {
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

export function eachProcess(of: (name: ProcessName) => number): ByProcess {
  return Object.fromEntries(processes.map((name) => [name, of(name)])) as ByProcess
}

export const requestsOf = (rig: Rig, campaignId: string, count: number) =>
  rig.claims(campaignId, count).map(({ request }) => request)

/** µs of each process beyond what it takes at rest. */
export const beyond = (span: Span, base: Base): ByProcess =>
  eachProcess((name) => Math.max(0, span.cpu[name] * 1e6 - base[name] * span.seconds))

export function expectAll(sent: Sent, ...codes: string[]): void {
  const expected = codes.reduce((sum, code) => sum + (sent[code] ?? 0), 0)
  // A claim without an answer may have been accepted all the same: too many, and no cost can be told.
  if (expected < total(sent) * 0.95)
    throw new Error(`${codes.join(' or ')} was to be measured; the answers: ${JSON.stringify(sent)}`)
}

/** Claims in calls of many sizes: as fast as they go, one at a time, and at two rates between. */
export async function measureLots(rig: Rig, base: Base, say: (line: string) => void) {
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

export const callMs = ({ claims, calls, sendSeconds }: Lot) => callMsOf(claims / sendSeconds, claims / calls)

/** The drain has two transactions at work as well, and what comes meanwhile forms the next. */
export const drainBatchMs = ({ calls, drainBatches, sendSeconds }: Lot) =>
  callMsOf(calls / sendSeconds, calls / drainBatches)

export const commandsPerBatch = ({ commands, calls, drainBatches }: Lot, perCall: number) =>
  Math.max(0, commands - calls * perCall) / drainBatches

export function joined(a: Lot, b: Lot): Lot {
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
export function sharesOf(lots: readonly Lot[]) {
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
