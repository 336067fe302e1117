import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { Timeline } from '../record/record.ts'
import { HttpClient } from '../traffic/client.ts'
import { percentileOf, type Tally } from './tally.ts'
import { arbitrationIn, type StoreWork, workIn } from './usage.ts'

export interface SamplerParts {
  tally: Tally
  redisUrl: string
  databaseUrl: string
  edgeUrl: string
  metricsToken: string
  campaigns: readonly { id: string; bucketCount: number }[]
  streams(): number
  everyMs: number
  /** Told of each sample, for the line of progress. */
  onSample(line: string): void
}

interface Stock {
  remaining: number
  entries: number
  leaseMs: number
  /** Of Redis since it started: CPU seconds, and bytes in and out. */
  work: StoreWork
}

/**
 * Looks at the system at equal distances while it is under load: gates, logs and leases in Redis, coupons in Postgres,
 * the gate's own counts, and what clients saw. What doesn't answer in time is `null`, and holds nothing up.
 */
export class Sampler {
  readonly startedAtMs = Date.now()
  readonly #startedAt = performance.now()
  readonly #parts: SamplerParts
  readonly #redis: Redis
  readonly #sql: postgres.Sql
  readonly #gate: HttpClient
  readonly #series = new Map<string, (number | null)[]>()
  readonly #events: { at_ms: number; label: string }[] = []
  #samples = 0
  #lastAt = this.#startedAt
  #issued: { count: number; at: number } | undefined
  #calls: { calls: number; claims: number } | undefined
  #work: (StoreWork & { at: number }) | undefined
  #timer: NodeJS.Timeout | undefined
  #busy = false
  #stopped = false
  /** Commands that were sent to Redis for this: they are not the system's. */
  commandsSent = 0

  constructor(parts: SamplerParts) {
    this.#parts = parts
    this.#redis = new Redis(parts.redisUrl, {
      maxRetriesPerRequest: 0,
      enableOfflineQueue: false,
      retryStrategy: () => 100,
    })
    this.#redis.on('error', () => undefined)
    this.#sql = postgres(parts.databaseUrl, {
      max: 1,
      onnotice: () => undefined,
      connection: { statement_timeout: 2_000 },
    })
    this.#gate = new HttpClient(parts.edgeUrl, 1)
    parts.tally.takeWindow()
    this.#plan()
  }

  event(label: string): void {
    this.#events.push({ at_ms: Math.round(performance.now() - this.#startedAt), label })
  }

  /** Takes a last sample and lets go. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    while (this.#busy) await new Promise((resolve) => setTimeout(resolve, 10))
    this.#redis.disconnect()
    this.#gate.close()
    await this.#sql.end({ timeout: 2 })
  }

  timeline(): Timeline {
    return {
      every_ms: this.#parts.everyMs,
      series: Object.fromEntries(this.#series),
      events: this.#events,
    }
  }

  #plan(): void {
    const { everyMs } = this.#parts
    const due = this.#startedAt + (this.#samples + 1) * everyMs
    this.#timer = setTimeout(
      () => {
        this.#busy = true
        void this.#sample().finally(() => {
          this.#busy = false
          if (!this.#stopped) this.#plan()
        })
      },
      Math.max(0, due - performance.now()),
    )
  }

  async #sample(): Promise<void> {
    const now = performance.now()
    const seconds = (now - this.#lastAt) / 1000
    this.#lastAt = now
    const window = this.#parts.tally.takeWindow()
    const wait = this.#parts.everyMs * 0.8
    const [stock, issued, gate] = await Promise.all([
      soon(this.#readStock(), wait),
      soon(this.#readIssued(), wait),
      soon(this.#readGate(), wait),
    ])
    const rate = (count: number) => Math.round(count / seconds)
    const row: Record<string, number | null> = {
      offered: rate(window.offered),
      accepted: rate(window.accepted),
      delivered: this.#deliveredRate(issued),
      remaining: stock?.remaining ?? null,
      backlog: stock?.entries ?? null,
      lease_ms: stock?.leaseMs ?? null,
      accept_p50_ms: percentileOf(window.acceptMs, 50),
      accept_p99_ms: percentileOf(window.acceptMs, 99),
      sse_clients: this.#parts.streams(),
      polls: rate(window.polls),
      ...this.#storeWork(stock?.work),
      ...this.#arbitration(gate, seconds),
    }
    for (const [code, count] of Object.entries(window.refused)) row[`refused.${code}`] = rate(count)
    this.#add(row)
    this.#parts.onSample(lineOf(now - this.#startedAt, row))
  }

  #add(row: Record<string, number | null>): void {
    for (const name of Object.keys(row))
      if (!this.#series.has(name)) this.#series.set(name, new Array(this.#samples).fill(0))
    // A code that nobody was told is a zero, not a gap.
    for (const [name, values] of this.#series) values.push(name in row ? row[name]! : 0)
    this.#samples++
  }

  #deliveredRate(issued: number | undefined): number | null {
    if (issued === undefined) return null
    const last = this.#issued
    const at = performance.now()
    this.#issued = { count: issued, at }
    return last === undefined ? 0 : Math.round(((issued - last.count) * 1000) / (at - last.at))
  }

  #arbitration(
    gate: { calls: number; claims: number } | undefined,
    seconds: number,
  ): { calls: number | null; batch: number | null } {
    const last = this.#calls
    this.#calls = gate ?? last
    if (gate === undefined || last === undefined) return { calls: null, batch: null }
    const calls = gate.calls - last.calls
    const batch = calls === 0 ? null : Math.round(((gate.claims - last.claims) / calls) * 10) / 10
    return { calls: Math.round(calls / seconds), batch }
  }

  /** What Redis did since the last sample: of one CPU, and over the network. */
  #storeWork(now: StoreWork | undefined): {
    redis_cpu_percent: number | null
    redis_kb_per_s: number | null
  } {
    const last = this.#work
    const at = performance.now()
    this.#work = now === undefined ? undefined : { ...now, at }
    // A Redis that was started anew began to count anew.
    if (now === undefined || last === undefined || now.bytes < last.bytes)
      return { redis_cpu_percent: null, redis_kb_per_s: null }
    const seconds = (at - last.at) / 1000
    return {
      redis_cpu_percent: Math.round(((now.cpuSeconds - last.cpuSeconds) / seconds) * 1000) / 10,
      redis_kb_per_s: Math.round((now.bytes - last.bytes) / seconds / 1000),
    }
  }

  async #readStock(): Promise<Stock> {
    const pipeline = this.#redis.pipeline()
    for (const { id, bucketCount } of this.#parts.campaigns)
      for (let bucket = 0; bucket < bucketCount; bucket++) {
        pipeline.hmget(`tg:{${id}:${bucket}}:gate`, 'remaining', 'lease_until')
        pipeline.xlen(`tg:{${id}:${bucket}}:log`)
      }
    this.commandsSent += pipeline.length
    // Nobody is billed for this one.
    pipeline.info('cpu', 'stats')
    const replies = (await pipeline.exec()) ?? []
    const [infoError, info] = replies.pop() as [Error | null, string]
    if (infoError) throw infoError
    const now = Date.now()
    const stock: Stock = { remaining: 0, entries: 0, leaseMs: Number.POSITIVE_INFINITY, work: workIn(info) }
    for (let i = 0; i < replies.length; i += 2) {
      const [gateError, gate] = replies[i] as [Error | null, (string | null)[]]
      const [logError, length] = replies[i + 1] as [Error | null, number]
      if (gateError ?? logError) throw gateError ?? logError
      stock.remaining += Number(gate[0] ?? 0)
      stock.leaseMs = Math.min(stock.leaseMs, Math.max(0, Number(gate[1] ?? 0) - now))
      stock.entries += length
    }
    return stock
  }

  async #readIssued(): Promise<number> {
    const ids = this.#parts.campaigns.map(({ id }) => id)
    const [row] = await this.#sql<{ n: string }[]>`
      SELECT coalesce(sum(issued), 0) AS n FROM campaign_stock WHERE campaign_id = ANY(${ids})`
    return Number(row!.n)
  }

  async #readGate(): Promise<{ calls: number; claims: number }> {
    const headers = { Authorization: `Bearer ${this.#parts.metricsToken}` }
    const reply = await this.#gate.send(this.#gate.encode('GET', '/_gate/metrics', headers))
    if (reply.status !== 200) throw new Error(`the gate's metrics: HTTP ${reply.status}`)
    return arbitrationIn(reply.body)
  }
}

/** Undefined when it fails or takes longer. */
async function soon<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([work.catch(() => undefined), late])
  } finally {
    clearTimeout(timer)
  }
}

function lineOf(ms: number, row: Record<string, number | null>): string {
  const show = (name: string) => row[name] ?? '–'
  const refused = Object.entries(row)
    .filter(([name, value]) => name.startsWith('refused.') && value)
    .map(([name, value]) => `${name.slice('refused.'.length)} ${value}`)
  return (
    `${(ms / 1000).toFixed(1)} s  offered ${show('offered')}/s accepted ${show('accepted')}/s ` +
    `delivered ${show('delivered')}/s remaining ${show('remaining')} backlog ${show('backlog')} ` +
    `lease ${show('lease_ms')} ms p99 ${show('accept_p99_ms')} ms  ${refused.join(' ')}`
  )
}
