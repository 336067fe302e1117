import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import type { Stack } from '../../stack/stack.ts'
import { openCampaign } from '../traffic/campaign.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { steady } from './arrivals.ts'
import { Crowd } from './crowd.ts'
import type { Delivery } from './deliveries.ts'
import { Watchers } from './follow.ts'
import { untilAtRest, untilLeased, type Watched } from './ledgerLooks.ts'
import { type CrowdWish, distributionOf, planCrowd } from './population.ts'
import { Sampler } from './sampler.ts'
import { Tally } from './tally.ts'
import { makeTokens } from './tokens.ts'
import { type Counters, CpuWatch, readCounters, readStore } from './usage.ts'

/** Connections of the driver for claims, and as many for questions. */
export const connections = 256
const rehearsalConnections = 128
/** A second; more than one machine of this kind takes. */
const rehearsalPeople = 12_000
const leaseWithinMs = 30_000
const restWithinMs = 60_000
const closeWithinMs = 2_000
/** After the last planned press, those who wait to come again do so for this long. */
const graceMs = 10_000

export interface CampaignPlan {
  quota: number
  bucketCount?: number
  /** From now; in the past unless given. */
  startsInMs?: number
}

export interface OpenedCampaign extends Watched {
  quota: number
  startsAtMs: number
}

export interface WorldOptions {
  stack: Stack
  metricsToken: string
  tools: Record<string, unknown>
  sampleEveryMs: number
  progress(line: string): void
}

/** A stack under load: its campaigns, its people, and what is written down of them. */
export class World {
  readonly stack: Stack
  readonly tools: Record<string, unknown>
  readonly sql: postgres.Sql
  readonly redis: Redis
  readonly tally = new Tally()
  readonly watchers: Watchers
  readonly cpu = new CpuWatch()
  /** Broken invariants, in words. */
  readonly violations: string[] = []
  readonly figures: Record<string, number> = {}
  readonly settings: Record<string, string | number | boolean> = {}
  readonly distribution: { name: string; count: number }[] = []
  readonly crowds: Crowd[] = []
  readonly progress: (line: string) => void
  campaigns: OpenedCampaign[] = []
  sampler: Sampler | undefined
  /** Figures that only the deliveries tell, once all are there. */
  look: ((deliveries: readonly Delivery[]) => Record<string, number>) | undefined
  /** A name for some deliveries, whose latencies are told beside the whole. */
  groupOf: ((delivery: Delivery) => string | undefined) | undefined
  before: { counters: Counters; redisCpu: number; redisBytes: number; at: number } | undefined
  readonly #options: WorldOptions
  readonly #client: HttpClient
  readonly #questions: HttpClient
  readonly #tokens: ReturnType<typeof makeTokens>

  constructor(options: WorldOptions) {
    const { stack } = options
    this.#options = options
    this.stack = stack
    this.tools = options.tools
    this.progress = options.progress
    this.sql = postgres(stack.endpoints.postgres, { max: 2, onnotice: () => undefined, connect_timeout: 5 })
    this.redis = new Redis(stack.endpoints.redis, { maxRetriesPerRequest: 1, retryStrategy: () => 100 })
    this.redis.on('error', () => undefined)
    this.#client = new HttpClient(stack.endpoints.edge, connections)
    this.#questions = new HttpClient(stack.endpoints.edge, connections)
    this.#tokens = makeTokens(stack.keys)
    this.watchers = new Watchers(this.#questions, stack.endpoints.edge, this.tally)
  }

  get client(): HttpClient {
    return this.#client
  }

  async close(): Promise<void> {
    this.#client.close()
    this.#questions.close()
    // Whoever waits for a connection that will never be, waits for ever.
    await Promise.race([this.watchers.end(), pause(closeWithinMs, undefined, { ref: false })])
    await this.sampler?.stop()
    this.redis.disconnect()
    await this.sql.end({ timeout: 2 })
  }

  /** Publishes campaigns; their gates have their lease when it resolves. */
  async open(plans: readonly CampaignPlan[]): Promise<OpenedCampaign[]> {
    const opened: OpenedCampaign[] = []
    for (const [i, { quota, bucketCount = 1, startsInMs = -1_000 }] of plans.entries()) {
      const startsAtMs = Date.now() + startsInMs
      const id = await openCampaign(this.stack, {
        name: `Load ${i + 1}`,
        quota,
        startsAtMs,
        endsAtMs: startsAtMs + 3_600_000,
        bucketCount,
      })
      opened.push({ id, bucketCount, quota, startsAtMs })
    }
    await untilLeased(this.redis, opened, leaseWithinMs)
    this.campaigns.push(...opened)
    return opened
  }

  /**
   * What the system takes when 128 clients never wait, each with another claim: the yardstick for a scenario's rate,
   * and what warms everything up. On a campaign of its own that nothing else is measured by.
   */
  async rehearse(seconds: number): Promise<number> {
    const [campaign] = await this.open([{ quota: 100_000 }])
    this.campaigns.pop()
    const warmMs = (seconds * 1000) / 3
    const crowd = this.#crowd(
      {
        ...{ seed: 1, seconds: seconds + warmMs / 1000, perSecond: rehearsalPeople, curve: steady },
        ...{ kinds: { once: 1 }, campaigns: 1, zipf: 1 },
      },
      new Tally(),
      [campaign!],
    )
    await crowd.prepare()
    const from = performance.now() + warmMs
    const end = from + seconds * 1000
    let counted = 0
    await closedLoop(crowd.visitors.length, rehearsalConnections, async (i) => {
      if (performance.now() >= end) return
      await crowd.once(i)
      if (performance.now() < from) return
      counted++
      if (counted % 500 === 0) this.progress(`rehearsal: ${counted} claims`)
    })
    const perSecond = (counted * 1000) / (performance.now() - from)
    await untilAtRest(this.redis, this.sql, [campaign!], restWithinMs)
    return perSecond
  }

  /** Plans a crowd and gives everybody what they have before they press. */
  async gather(wish: CrowdWish, campaigns: readonly OpenedCampaign[] = this.campaigns): Promise<Crowd> {
    const crowd = await this.#gather(wish, this.tally, campaigns)
    this.distribution.push(...distributionOf(crowd.plan))
    return crowd
  }

  /** A crowd that comes before the run: it is audited with the others, and not measured. */
  gatherBefore(wish: CrowdWish): Promise<Crowd> {
    return this.#gather(wish, new Tally(), this.campaigns)
  }

  async #gather(wish: CrowdWish, tally: Tally, campaigns: readonly OpenedCampaign[]): Promise<Crowd> {
    this.progress('preparing people')
    const crowd = this.#crowd(wish, tally, campaigns)
    await crowd.prepare()
    this.crowds.push(crowd)
    return crowd
  }

  /** From now on everything is written down. */
  async begin(): Promise<void> {
    const { metricsToken, sampleEveryMs, progress } = this.#options
    const counters = await readCounters(this.stack, metricsToken)
    const { cpuSeconds, bytes } = await readStore(this.redis)
    for (const [name, part] of Object.entries(this.stack.parts)) this.cpu.follow(name, part.pid)
    this.before = { counters, redisCpu: cpuSeconds, redisBytes: bytes, at: performance.now() }
    this.sampler = new Sampler({
      tally: this.tally,
      redisUrl: this.stack.endpoints.redis,
      databaseUrl: this.stack.endpoints.postgres,
      edgeUrl: this.stack.endpoints.edge,
      metricsToken,
      campaigns: this.campaigns,
      streams: () => this.watchers.streams,
      everyMs: sampleEveryMs,
      onSample: progress,
    })
  }

  /** What is done to the system, on the timeline. */
  mark(label: string): void {
    this.sampler?.event(label)
  }

  /** Has a crowd come, and leave some time after its last planned press. */
  async flood(crowd: Crowd, beganAt = performance.now()): Promise<void> {
    const last = crowd.plan.presses.at(-1)?.atMs ?? 0
    const over = new AbortController()
    const leaving = pause(beganAt + last + graceMs - performance.now(), undefined, {
      signal: over.signal,
    }).then(
      () => crowd.leave(),
      () => undefined,
    )
    await crowd.come(beganAt)
    over.abort()
    await leaving
  }

  /** The counters as they stand now. */
  counters(): Promise<Counters> {
    return readCounters(this.stack, this.#options.metricsToken)
  }

  /** What Redis says of its own work. */
  readStore(): ReturnType<typeof readStore> {
    return readStore(this.redis)
  }

  #crowd(wish: CrowdWish, tally: Tally, campaigns: readonly OpenedCampaign[]): Crowd {
    return new Crowd(planCrowd(wish), {
      client: this.#client,
      watchers: this.watchers,
      campaigns,
      tally,
      tokens: this.#tokens,
      gateToken: this.#options.metricsToken,
      mintLogin: (user) => this.stack.mintLogin({ user }),
    })
  }
}

export const makeMetricsToken = (): string => randomBytes(18).toString('base64url')
