import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { Keyring } from '../../schema/sealed.ts'
import { until } from '../../stack/process.ts'
import type { Stack } from '../../stack/stack.ts'
import { cpuSeconds } from '../bench/edge/cpu.ts'
import { type Bill, readBill } from '../measure/billing.ts'
import { openCampaign } from '../traffic/campaign.ts'
import { HttpClient, type Reply } from '../traffic/client.ts'
import { openLoop } from '../traffic/openLoop.ts'
import { claimTokenRing, type SealedClaim, sealedClaims } from '../traffic/sealedClaims.ts'

export const connections = 128
const settleWithinMs = 60_000

export const processes = ['worker', 'gateway', 'redis', 'core', 'postgres', 'driver'] as const
export type ProcessName = (typeof processes)[number]
export type CpuByProcess = Readonly<Record<ProcessName, number>>

/** What happened between two looks. */
export interface Span {
  readonly seconds: number
  /** CPU seconds. */
  readonly cpu: CpuByProcess
  /** CPU seconds of whatever else the machine did. */
  readonly others: number
  readonly commands: number
  readonly byCommand: Readonly<Record<string, number>>
  /** Requests at the gateway, and so calls of the edge. */
  readonly gatewayRequests: number
}

interface Look {
  readonly at: number
  readonly cpu: CpuByProcess
  readonly busy: number
  readonly bill: Bill
}

/** A stack with a driver, and looks at what both use. */
export class Rig {
  readonly stack: Stack
  readonly client: HttpClient
  readonly sql: postgres.Sql
  readonly redis: Redis
  readonly #ring: Keyring
  readonly #shared = { others: 0, seconds: 0 }

  constructor(stack: Stack) {
    this.stack = stack
    this.client = new HttpClient(stack.endpoints.edge, connections)
    this.sql = postgres(stack.endpoints.postgres, { max: 1, onnotice: () => undefined })
    this.redis = new Redis(stack.endpoints.redis)
    this.#ring = claimTokenRing(stack)
  }

  /** Share of the machine that others took while something was measured. */
  get othersShare(): number {
    return this.#shared.seconds === 0 ? 0 : this.#shared.others / this.#shared.seconds / machineCores
  }

  async close(): Promise<void> {
    this.client.close()
    this.redis.disconnect()
    await this.sql.end({ timeout: 2 })
  }

  /** An open campaign of one bucket, with its lease. */
  async campaign(quota: number): Promise<string> {
    const window = { startsAtMs: Date.now() - 1_000, endsAtMs: Date.now() + 3_600_000 }
    const id = await openCampaign(this.stack, { name: 'Capacity', quota, bucketCount: 1, ...window })
    const leased = async () => Number(await this.redis.hget(`tg:{${id}:0}:gate`, 'lease_until')) > Date.now()
    await until(leased, 'the campaign does not open', 30_000, 20)
    return id
  }

  claims(campaignId: string, count: number): SealedClaim[] {
    const run = randomUUID().slice(0, 8)
    const users = Array.from({ length: count }, (_, i) => `user-${run}-${String(i).padStart(6, '0')}`)
    return sealedClaims(this.#ring, this.client, campaignId, users)
  }

  /** Until so many of the campaign's coupons are issued and their results told. */
  async settled(campaignId: string, coupons: number): Promise<void> {
    const isSettled = async () => {
      const [stock] = await this.sql`SELECT issued FROM campaign_stock WHERE campaign_id = ${campaignId}`
      if (Number(stock!['issued']) < coupons) return false
      const [left] = await this.sql`
        SELECT count(*)::int AS n FROM (SELECT FROM outbox WHERE published_at IS NULL LIMIT 1) AS one`
      return Number(left!['n']) === 0
    }
    await until(isSettled, 'claims stay undelivered', settleWithinMs, 20)
  }

  /** Does the work and tells what it took. */
  async span<T>(work: () => Promise<T>): Promise<Span & { readonly result: T }> {
    const before = await this.#look()
    const result = await work()
    const after = await this.#look()
    const cpu = Object.fromEntries(
      processes.map((name) => [name, after.cpu[name] - before.cpu[name]]),
    ) as CpuByProcess
    const mine = processes.reduce((sum, name) => sum + cpu[name], 0)
    const others = Math.max(0, after.busy - before.busy - mine)
    const seconds = (after.at - before.at) / 1_000
    this.#shared.others += others
    this.#shared.seconds += seconds
    const byCommand: Record<string, number> = {}
    for (const [name, count] of Object.entries(after.bill.by_command))
      byCommand[name] = count - (before.bill.by_command[name] ?? 0)
    return {
      result,
      seconds,
      cpu,
      others,
      commands: after.bill.billed_commands - before.bill.billed_commands,
      byCommand,
      // The looks themselves are requests too; the first is counted by the second.
      gatewayRequests: after.bill.http_requests - before.bill.http_requests,
    }
  }

  async #look(): Promise<Look> {
    const bill = await readBill(this.stack)
    const pid = (name: 'edge' | 'gateway' | 'redis' | 'core' | 'postgres') =>
      cpuSeconds(this.stack.part(name).pid) ?? 0
    const own = process.cpuUsage()
    const cpu: CpuByProcess = {
      worker: pid('edge'),
      gateway: pid('gateway'),
      redis: pid('redis'),
      core: pid('core'),
      postgres: pid('postgres'),
      driver: (own.user + own.system) / 1e6,
    }
    return { at: performance.now(), cpu, busy: busySeconds(), bill }
  }
}

export const machineCores = cpus().length

/** CPU seconds that all processors have worked since the start of the machine. */
function busySeconds(): number {
  if (process.platform !== 'linux')
    return cpus().reduce((sum, { times }) => sum + times.user + times.sys, 0) / 1e3
  const [user, nice, system, , , irq, softirq, steal] = /^cpu +(.*)$/m
    .exec(readFileSync('/proc/stat', 'utf8'))![1]!
    .split(' ')
    .map(Number) as number[]
  return (user! + nice! + system! + irq! + softirq! + steal!) / 100
}

export type Sent = Readonly<Record<string, number>>

const codeOf = ({ status, body }: Reply) =>
  status === 202 ? 'ACCEPTED' : (/"code":"(\w+)"/.exec(body)?.[1] ?? `HTTP ${status}`)

/** With all connections always waiting, until the requests or the time are used up. @returns answers by code */
export async function sendClosed(
  client: HttpClient,
  requests: readonly Buffer[],
  withinMs: number,
): Promise<Sent> {
  const sent: Record<string, number> = {}
  const ends = performance.now() + withinMs
  let next = 0
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (next < requests.length && performance.now() < ends) {
        const code = await client.send(requests[next++]!).then(codeOf, () => 'no answer')
        sent[code] = (sent[code] ?? 0) + 1
      }
    }),
  )
  return sent
}

/** Each at its own time. @returns answers by code */
export async function sendOpen(
  client: HttpClient,
  requests: readonly Buffer[],
  perSecond: number,
): Promise<Sent> {
  const sent: Record<string, number> = {}
  await openLoop(requests.length, perSecond, async (i) => {
    const code = await client.send(requests[i]!).then(codeOf, () => 'no answer')
    sent[code] = (sent[code] ?? 0) + 1
  })
  return sent
}

export const total = (sent: Sent) => Object.values(sent).reduce((sum, count) => sum + count, 0)
