import { cpus } from 'node:os'
import { drainSpeed } from '../bench/drain.ts'
import { arbiterCost } from '../bench/lua.ts'
import { measureStreams } from '../bench/sse.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { gatherShoppers } from '../traffic/shoppers.ts'
import type { Costs, UnitCosts } from './costs.ts'
import {
  type Base,
  beyond,
  callMs,
  commandsPerBatch,
  drainBatchMs,
  eachProcess,
  expectAll,
  joined,
  type Lot,
  manyMs,
  measureLots,
  requestsOf,
  shares,
  sharesOf,
} from './lots.ts'
import { type Rig, sendClosed, total } from './rig.ts'

/**
 * Unit costs, measured on the spot in about a minute by phases that each drive one thing, on the whole stack. What a
 * claim costs, and what the call that it travels in, follows from lots whose calls are of different sizes
 * (`lots.ts`). What all parts take at rest is taken off everywhere.
 */

const idleSeconds = 2.5
const streams = 2_000
const drainClaims = 20_000

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
