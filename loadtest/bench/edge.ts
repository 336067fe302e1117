import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { logKey } from '../../lua/keys.ts'
import { billedCommands } from '../measure/billing.ts'
import { Latencies } from '../measure/percentiles.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop, openLoop } from '../traffic/openLoop.ts'
import { cpuSeconds } from './edge/cpu.ts'
import { type Front, startFront } from './edge/front.ts'
import { claims, tokenRequests } from './edge/requests.ts'
import { median, type Suite } from './suite.ts'

/**
 * What the gate takes a second, beside two yardsticks in the same runtime and by the same driver: a bare worker of one
 * route, and that worker with requests that wait for shared calls, which no claim can do without. 128 connections on
 * direct sockets, each with one request on the way, requests encoded beforehand, all on this machine.
 *
 * A machine's speed changes from one second to the next (bare: 12 to 16 k/s within a minute), so the cases take short
 * turns, bare both before and after the others, and a ratio is the median of the turns' ratios. Latencies are of an
 * open loop at 70 % of the measured rate, from when each request was due.
 */

const connections = 128
const perCase = 5_000
const tokensPerCase = 1_000
const soldOutRequests = 50_000
/** Short turns in one of `--turns`. */
const shortTurns = 3

interface Measured {
  perSecond: number
  /** µs of CPU a request, where the system tells. */
  cpuUs: Record<string, number>
}

async function measure(
  client: HttpClient,
  requests: readonly Buffer[],
  expected: number,
  pids: Record<string, number> = {},
): Promise<Measured> {
  const before = Object.entries(pids).map(([name, pid]) => [name, pid, cpuSeconds(pid)] as const)
  const began = performance.now()
  await closedLoop(requests.length, connections, async (i) => {
    const reply = await client.send(requests[i]!)
    if (reply.status !== expected) throw new Error(`expected ${expected}: ${reply.status} ${reply.body}`)
  })
  const perSecond = (requests.length * 1000) / (performance.now() - began)
  const cpuUs: Record<string, number> = {}
  for (const [name, pid, at] of before) {
    const now = cpuSeconds(pid)
    if (at !== undefined && now !== undefined)
      cpuUs[name] = round(((now - at) * 1_000_000) / requests.length, 1)
  }
  return { perSecond, cpuUs }
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length
const round = (value: number, digits = 3) => Math.round(value * 10 ** digits) / 10 ** digits

const cases = ['bare', 'grouped', 'soldout', 'claim', 'replay', 'token'] as const

interface Clients {
  gate: HttpClient
  bare: HttpClient
  grouped: HttpClient
}

interface Turn {
  bare: Measured
  grouped: Measured
  soldout: Measured
  claim: Measured
  replay: Measured
  token: Measured
  sizes: number[]
}

async function runTurn(
  front: Front,
  { gate, bare: bareClient, grouped: groupedClient }: Clients,
): Promise<Turn> {
  const pids = { worker: front.stack.part('edge').pid, gateway: front.stack.part('gateway').pid }
  const id = await front.campaign(perCase + 1_000)
  const fresh = claims(front, gate, id, perCase)
  const bareRequests = claims(front, bareClient, id, perCase)
  const groupedRequests = claims(front, groupedClient, id, perCase)
  const bareBefore = await measure(bareClient, bareRequests, 202, { worker: front.bare.pid })
  const grouped = await measure(groupedClient, groupedRequests, 202, { worker: front.grouped.pid })
  const claim = await measure(gate, fresh, 202, pids)
  const sizes = await batchSizes(front, id)
  const replay = await measure(gate, fresh, 202, pids)
  const gone = await soldOutCampaign(front, gate)
  const soldout = await measure(gate, claims(front, gate, gone, perCase), 409, pids)
  const bareAfter = await measure(bareClient, bareRequests, 202, { worker: front.bare.pid })
  const bare = between(bareBefore, bareAfter)
  const token = await measure(gate, await tokenRequests(front, gate, id, tokensPerCase), 201, pids)
  return { bare, grouped, soldout, claim, replay, token, sizes }
}

function between(before: Measured, after: Measured): Measured {
  const perSecond = mean([before.perSecond, after.perSecond])
  const cpu = [before, after].flatMap(({ cpuUs }) => cpuUs['worker'] ?? [])
  return { perSecond, cpuUs: cpu.length === 0 ? {} : { worker: mean(cpu) } }
}

/** A campaign whose one coupon is gone, and whose end the gate has heard of. */
async function soldOutCampaign(front: Front, gate: HttpClient): Promise<string> {
  const id = await front.campaign(1)
  for (const request of claims(front, gate, id, 300)) await gate.send(request)
  return id
}

/** How many acceptances each arbitration call brought: the log has an entry a call. */
async function batchSizes(front: Front, campaignId: string): Promise<number[]> {
  const entries = await front.redis.xrange(logKey({ campaignId, bucket: 0 }), '-', '+')
  return entries.map(([, fields]) => (fields.length - 2) / 2)
}

/** Latency in ms of claims that come at their own times, whatever becomes of those before. */
async function claimLatency(front: Front, gate: HttpClient, perSecond: number): Promise<Latencies> {
  const count = Math.round(perSecond * 2)
  const requests = claims(front, gate, await front.campaign(count), count)
  const latencies = new Latencies()
  await openLoop(count, perSecond, async (i, dueAt) => {
    await gate.send(requests[i]!)
    latencies.record(performance.now() - dueAt)
  })
  return latencies
}

/** What `soldOutRequests` claims of as many users cost Redis, a request, when all coupons are gone. */
async function soldOutCommands(front: Front, gate: HttpClient): Promise<number> {
  const id = await soldOutCampaign(front, gate)
  const requests = claims(front, gate, id, soldOutRequests)
  const before = await billedCommands(front.stack)
  await measure(gate, requests, 409)
  return ((await billedCommands(front.stack)) - before) / soldOutRequests
}

async function claimBytes(front: Front, gate: HttpClient): Promise<{ in: number; out: number }> {
  const [request] = claims(front, gate, await front.campaign(1), 1)
  const reply = await gate.send(request!)
  return { in: request!.length, out: Buffer.byteLength(reply.head) + 4 + Buffer.byteLength(reply.body) }
}

function summarise(turns: readonly Turn[]) {
  const rates = Object.fromEntries(
    cases.map((name) => [`${name}_per_s`, Math.round(median(turns.map((turn) => turn[name].perSecond)))]),
  )
  const ratiosOf = (name: (typeof cases)[number]) =>
    turns.map((turn) => turn[name].perSecond / turn.bare.perSecond).sort((a, b) => a - b)
  const ratio = (name: (typeof cases)[number]) => round(median(ratiosOf(name)))
  const claimRatios = ratiosOf('claim')
  const cpu = Object.fromEntries(
    cases.map((name) => [
      name,
      Object.fromEntries(
        Object.keys(turns[0]![name].cpuUs).map((part) => [
          part,
          round(mean(turns.map((turn) => turn[name].cpuUs[part]!)), 1),
        ]),
      ),
    ]),
  )
  const sizes = turns.flatMap((turn) => turn.sizes).sort((a, b) => a - b)
  const at = (share: number) => sizes[Math.min(sizes.length - 1, Math.floor(sizes.length * share))]!
  return {
    rates: rates as Record<`${(typeof cases)[number]}_per_s`, number>,
    ratios: {
      ratio_soldout: ratio('soldout'),
      ratio_claim: ratio('claim'),
      ratio_grouped: ratio('grouped'),
      ratio_replay: ratio('replay'),
      ratio_token: ratio('token'),
    },
    /** A quarter of the turns lie below the first, a quarter above the second. */
    claim_quartiles: [0.25, 0.75].map((share) => round(claimRatios[Math.floor(claimRatios.length * share)]!)),
    cpu_us: cpu,
    batch: {
      calls: sizes.length,
      mean: round(mean(sizes), 1),
      p10: at(0.1),
      p50: at(0.5),
      p90: at(0.9),
      most: sizes.at(-1)!,
    },
  }
}

export const edgeSuite: Suite = {
  name: 'edge',
  about: 'the gate beside a bare worker: sold out, claim, replay, token',
  async run({ say, turns }) {
    const home = join(import.meta.dirname, '..', '..', '.tidegate')
    mkdirSync(home, { recursive: true, mode: 0o711 })
    const dir = join(home, `bench-edge-${process.pid}`)
    const front = await startFront(dir, say)
    const clients = {
      gate: new HttpClient(front.stack.endpoints.edge, connections),
      bare: new HttpClient(front.bare.url, connections),
      grouped: new HttpClient(front.grouped.url, connections),
    }
    const { gate } = clients
    try {
      // The first turns are for the optimisers of all the programs.
      for (let turn = 0; turn < shortTurns; turn++) await runTurn(front, clients)
      const measured: Turn[] = []
      for (let turn = 1; turn <= turns * shortTurns; turn++) {
        const result = await runTurn(front, clients)
        measured.push(result)
        const rates = cases.map((name) => `${name} ${Math.round(result[name].perSecond)}`)
        say(`turn ${turn}: ${rates.join(', ')} /s`)
      }
      const { rates, ratios, claim_quartiles, cpu_us, batch } = summarise(measured)
      const latencies = await claimLatency(front, gate, Math.round(rates.claim_per_s * 0.7))
      const commands = await soldOutCommands(front, gate)
      const bytes = await claimBytes(front, gate)
      return {
        result: {
          ...rates,
          ...ratios,
          ratio_claim_quartiles: claim_quartiles,
          claim_p50_ms: latencies.at(50),
          claim_p99_ms: latencies.at(99),
          soldout_commands_per_request: round(commands, 4),
          claim_bytes_in: bytes.in,
          claim_bytes_out: bytes.out,
          batch_mean: batch.mean,
          batch,
          cpu_us,
          driver: `${connections} connections, ${perCase} requests a case, median of ${turns * shortTurns} turns; latency: open loop at 70 %`,
        },
        budgets: {
          'ratio_soldout ≥ 0.9': ratios.ratio_soldout >= 0.9,
          'ratio_claim ≥ 0.55': ratios.ratio_claim >= 0.55,
          'soldout_commands_per_request ≤ 0.05': commands <= 0.05,
        },
      }
    } finally {
      for (const client of Object.values(clients)) client.close()
      await front.stop()
      rmSync(dir, { recursive: true, force: true })
    }
  },
}
