import type { Redis } from 'ioredis'
import type { Stack } from '../../stack/stack.ts'
import { cpuSeconds } from '../bench/edge/cpu.ts'

/** What a run costs: CPU seconds by process, and Redis commands by who has them executed. */

/** Adds up the CPU of processes that may be killed and started again meanwhile. */
export class CpuWatch {
  readonly #pids = new Map<string, number>()
  readonly #began = new Map<string, number>()
  readonly #used = new Map<string, number>()
  readonly #self = process.cpuUsage()

  /** Follows a process under this name from now on; the one before it keeps what it has used. */
  follow(name: string, pid: number): void {
    this.note(name)
    this.#pids.set(name, pid)
    this.#began.set(name, cpuSeconds(pid) ?? 0)
  }

  /** Takes down what it has used so far: to be called before it is killed. */
  note(name: string): void {
    const pid = this.#pids.get(name)
    if (pid === undefined) return
    const now = cpuSeconds(pid)
    if (now === undefined || now === 0) return
    this.#used.set(name, (this.#used.get(name) ?? 0) + now - this.#began.get(name)!)
    this.#began.set(name, now)
  }

  /** Empty where the system doesn't tell (no /proc); `driver` is this process. */
  seconds(): Record<string, number> {
    for (const name of this.#pids.keys()) this.note(name)
    const { user, system } = process.cpuUsage(this.#self)
    const round = (value: number) => Math.round(value * 100) / 100
    const parts = [...this.#used].map(([name, used]) => [name, round(used)] as const)
    return { ...Object.fromEntries(parts), driver: round((user + system) / 1e6) }
  }
}

/** Counters that only grow. */
export interface Counters {
  billed: number
  byCommand: Record<string, number>
  /** Commands that the edge sent through the gateway. */
  sent: number
  /** Arbitration calls of the worker, and the claims in them. */
  calls: number
  claims: number
  /** Transactions of the drain, and events told. */
  transactions: number
}

export async function readCounters(stack: Stack, metricsToken: string): Promise<Counters> {
  const stats = await text(`${stack.endpoints.gateway}/_gateway/stats`, stack.keys.gatewayToken)
  const bill = JSON.parse(stats) as {
    billed_commands: number
    by_command: Record<string, number>
    commands_sent: number
  }
  const gate = await text(`${stack.endpoints.edge}/_gate/metrics`, metricsToken)
  const core = await text(`${stack.endpoints.core}/metrics`)
  return {
    billed: bill.billed_commands,
    byCommand: bill.by_command,
    sent: bill.commands_sent,
    ...arbitrationIn(gate),
    transactions: sample(core, 'tidegate_issue_transaction_seconds_count'),
  }
}

export function arbitrationIn(gate: string): { calls: number; claims: number } {
  return {
    calls: sample(gate, 'tidegate_edge_arbitration_batch_claims_count{kind="claim"}'),
    claims: sample(gate, 'tidegate_edge_arbitration_batch_claims_sum{kind="claim"}'),
  }
}

/** Inside a claim's call: TIME, the gate's and the users' HMGET; one that accepts also XADD and two HSET. */
const commandsInCall = 3
const commandsInAcceptance = 3

/**
 * Whose commands they were. Redis counts for all together, so the edge's are those that came through the gateway and
 * what its arbitration calls ran inside (by the script's shape, `lua/scripts/claim-3.lua`; only it adds to the logs);
 * `ours` were the sampler's, and the core's are all others.
 */
export function splitCommands(
  before: Counters,
  after: Counters,
  ours: number,
): { edge: number; core: number } {
  const grown = (name: 'billed' | 'sent' | 'calls') => after[name] - before[name]
  const accepting = (after.byCommand['xadd'] ?? 0) - (before.byCommand['xadd'] ?? 0)
  const asked = grown('sent') + commandsInCall * grown('calls') + commandsInAcceptance * accepting
  // What was asked of a Redis that is away was never executed: then this is the most that it can have been.
  const theirs = Math.max(0, grown('billed') - ours)
  const edge = Math.min(asked, theirs)
  return { edge, core: theirs - edge }
}

/** Since Redis was started: CPU seconds, and bytes in and out. */
export interface StoreWork {
  cpuSeconds: number
  bytes: number
}

/** From the text of INFO. */
export function workIn(info: string): StoreWork {
  const of = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1] ?? 0)
  return {
    cpuSeconds: of('used_cpu_user') + of('used_cpu_sys'),
    bytes: of('total_net_input_bytes') + of('total_net_output_bytes'),
  }
}

/** What Redis says of its own work: CPU seconds, and how long scripts take (µs, since it started). */
export async function readStore(redis: Redis): Promise<StoreWork & { scriptUs: Record<string, number> }> {
  const info = await redis.info('cpu', 'stats')
  const latency = await redis.info('latencystats')
  const script = /latency_percentiles_usec_evalsha:p50=([\d.]+),p99=([\d.]+),p99\.9=([\d.]+)/.exec(latency)
  return {
    ...workIn(info),
    scriptUs:
      script === null
        ? {}
        : {
            redis_script_p50_us: Number(script[1]),
            redis_script_p99_us: Number(script[2]),
            redis_script_p999_us: Number(script[3]),
          },
  }
}

async function text(url: string, bearer?: string): Promise<string> {
  const response = await fetch(url, {
    headers: bearer === undefined ? {} : { Authorization: `Bearer ${bearer}` },
    signal: AbortSignal.timeout(5_000),
  })
  if (!response.ok) throw new Error(`${url}: HTTP ${response.status}`)
  return response.text()
}

/** A sample of a Prometheus text; 0 where it isn't there yet. */
function sample(exposed: string, name: string): number {
  const line = exposed.split('\n').find((one) => one.startsWith(`${name} `))
  return line === undefined ? 0 : Number(line.slice(name.length + 1))
}
