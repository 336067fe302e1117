import { Redis } from 'ioredis'
import postgres from 'postgres'
import { until } from '../../stack/process.ts'
import type { Stack } from '../../stack/stack.ts'
import { readAtRest } from '../audit/atRest.ts'
import { audit } from '../audit/audit.ts'
import { auditHistory } from '../audit/auditHistory.ts'
import { type CampaignWish, commandCampaign, openCampaign } from '../traffic/campaign.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { encodeClaim, gatherShoppers, type Shopper } from '../traffic/shoppers.ts'
import { type Acceptance, Flood, type Pace } from './flood.ts'
import { answerOf, Recorder } from './recorder.ts'

/** A stack under drill: campaigns, people who claim, and the judgement at the end. */
export class World {
  readonly stack: Stack
  readonly tools: Record<string, unknown>
  readonly sql: postgres.Sql
  readonly client: HttpClient
  readonly violations: string[] = []
  readonly recorder = new Recorder()
  campaignId = ''
  flood: Flood | undefined
  shoppers: Shopper[] = []

  constructor(stack: Stack, tools: Record<string, unknown> = {}) {
    this.stack = stack
    this.tools = tools
    this.sql = postgres(stack.endpoints.postgres, { max: 2, onnotice: () => undefined, connect_timeout: 5 })
    this.client = new HttpClient(stack.endpoints.edge, 64)
  }

  async close(): Promise<void> {
    this.client.close()
    await this.sql.end({ timeout: 2 })
  }

  /** A campaign with people who have their tokens; its gates have their lease. */
  async open(people: number, wish: Partial<CampaignWish> & { quota: number }): Promise<void> {
    const nowMs = Date.now()
    const window = { startsAtMs: nowMs - 1_000, endsAtMs: nowMs + 3_600_000 }
    const asked = { name: 'Drill', ...window, ...wish }
    this.campaignId = await openCampaign(this.stack, asked)
    this.recorder.opened(this.campaignId, asked.startsAtMs, asked.endsAtMs)
    this.shoppers = await gatherShoppers(this.stack, this.client, this.campaignId, people, () => undefined)
    await this.untilLeased()
  }

  startFlood(pace?: Pace): Flood {
    this.flood = new Flood(this.client, this.campaignId, this.shoppers, this.recorder, pace)
    return this.flood
  }

  /** For the history: what is being done to the system. */
  fault(what: string, forgets = false): void {
    this.recorder.fault(what, { forgets })
  }

  /** An operator's hand. @returns when the last gate had it, ms by the core's clock */
  command(verb: 'pause' | 'resume'): Promise<number> {
    return this.recorder.command(verb, () => commandCampaign(this.stack, this.campaignId, verb))
  }

  /** Until so many have been told of an acceptance. */
  async untilTold(count: number, withinMs = 30_000): Promise<void> {
    const { flood } = this
    await until(() => (flood?.told.length ?? 0) >= count, `not ${count} accepted`, withinMs)
  }

  /** All gates of the campaign are there and may accept. @returns how long that took, ms */
  async untilLeased(withinMs = 30_000): Promise<number> {
    const began = performance.now()
    await this.withRedis(async (redis) => {
      await until(
        async () => {
          try {
            const keys = await redis.keys(`tg:{${this.campaignId}:*}:gate`)
            const leases = await Promise.all(keys.map((key) => redis.hget(key, 'lease_until')))
            return leases.length > 0 && leases.every((lease) => Number(lease) > Date.now())
          } catch {
            return false
          }
        },
        'no lease came',
        withinMs,
      )
    })
    return Math.round(performance.now() - began)
  }

  async withRedis<T>(work: (redis: Redis) => Promise<T>): Promise<T> {
    const redis = new Redis(this.stack.endpoints.redis, { maxRetriesPerRequest: 1 })
    redis.on('error', () => undefined)
    try {
      return await work(redis)
    } finally {
      redis.disconnect()
    }
  }

  /** Request ids that the ledger has decided. */
  async settledIds(): Promise<Set<string>> {
    const rows = await this.sql<{ request_id: string }[]>`
      SELECT request_id::text FROM claims
      WHERE campaign_id = ${this.campaignId} AND status IN ('DELIVERED', 'REJECTED')`
    return new Set(rows.map((row) => row.request_id))
  }

  /** Until the logs are empty, no compensation is open, and so it stays for a moment. */
  async untilAtRest(): Promise<void> {
    let quietSince = 0
    await until(
      async () => {
        if (!(await this.#isQuiet().catch(() => false))) quietSince = 0
        else quietSince ||= Date.now()
        return quietSince > 0 && Date.now() - quietSince > 300
      },
      'claims stay undelivered',
      40_000,
      50,
    )
  }

  async #isQuiet(): Promise<boolean> {
    const [open] = await this.sql`
      SELECT count(*)::int AS n FROM compensations WHERE campaign_id = ${this.campaignId} AND state <> 'CLOSED'`
    if (Number(open!['n']) > 0) return false
    return this.withRedis(async (redis) => {
      const logs = await redis.keys(`tg:{${this.campaignId}:*}:log`)
      const lengths = await Promise.all(logs.map((log) => redis.xlen(log)))
      return lengths.every((length) => length === 0)
    })
  }

  /** Presents the receipts of all that the ledger doesn't know. @returns how many there were */
  async presentReceipts(): Promise<number> {
    const settled = await this.settledIds()
    const lost = this.#told().filter(({ requestId }) => !settled.has(requestId))
    await closedLoop(lost.length, 8, async (i) => {
      const { userId, receipt, shopper, requestId } = lost[i]!
      const complete = this.recorder.begin('receipts', shopper, 'receipt')
      const login = await this.stack.mintLogin({ user: userId })
      const headers = { Authorization: `Bearer ${login}`, 'Content-Type': 'application/json' }
      const request = this.client.encode('POST', '/v1/receipts', headers, JSON.stringify({ receipt }))
      let last = 'no answer'
      const taken = async () => {
        const reply = await this.client.send(request).catch(() => undefined)
        if (reply !== undefined) last = `${reply.status} ${reply.body.slice(0, 200)}`
        if (reply?.status !== 200) return false
        const { status } = JSON.parse(reply.body) as { status: string }
        complete({ outcome: 'honoured', request_id: requestId, status })
        return true
      }
      await until(taken, 'a receipt is not taken', 15_000, 200).catch((error: Error) => {
        throw new Error(`${error.message}: ${last}`)
      })
    })
    return lost.length
  }

  /** The same key again has the same answer (invariant 4); not for what was honoured by receipt. */
  async checkReplays(except: ReadonlySet<string> = new Set()): Promise<void> {
    const sample = this.#told()
      .filter(({ requestId }) => !except.has(requestId))
      .slice(0, 50)
    await closedLoop(sample.length, 8, async (i) => {
      const { shopper, body } = sample[i]!
      let last = 'none'
      const same = async () => {
        const complete = this.recorder.begin('replays', shopper)
        const reply = await this.client
          .send(encodeClaim(this.client, this.campaignId, shopper))
          .catch(() => undefined)
        complete(reply === undefined ? { outcome: 'unknown', why: 'no answer' } : answerOf(reply))
        // "Come again" says nothing of the claim.
        if (reply === undefined || reply.status === 503) return undefined
        last = `${reply.status} ${reply.body.slice(0, 120)}`
        return [reply.status === 202 && reply.body === body] as const
      }
      const [held] = await until(same, 'a repeated claim is not answered', 15_000, 200)
      if (!held) this.violations.push(`4: a repeated claim has another answer: ${last}`)
    })
  }

  /** Every invariant, by the auditor. @returns figures */
  async judge(losesAcceptances: boolean): Promise<Record<string, number>> {
    await this.untilAtRest()
    const known = await this.settledIds()
    const lost = new Set(
      this.#told()
        .filter(({ requestId }) => !known.has(requestId))
        .map((one) => one.requestId),
    )
    const honoured = losesAcceptances ? await this.presentReceipts() : 0
    await this.untilAtRest()
    await this.untilLeased()
    await this.checkReplays(lost)
    const target = {
      databaseUrl: this.stack.endpoints.postgres,
      redisUrl: this.stack.endpoints.redis,
      campaignId: this.campaignId,
    }
    const verdict = await audit({ ...target, told: this.#told() })
    this.violations.push(...verdict.violations)
    this.violations.push(...auditHistory(this.recorder.events, await readAtRest(target)))
    for (const wrong of new Set(this.flood?.wrong))
      this.violations.push(`an answer that nobody should get: ${wrong}`)
    const { issued = 0, remaining = 0 } = verdict.identity
    const [rebuilt] = await this.sql`
      SELECT count(*)::int AS n FROM audit_log WHERE action = 'bucket.rebuild' AND target = ${this.campaignId}`
    const rebuilds = Number(rebuilt!['n'])
    if (losesAcceptances && honoured > 0 && rebuilds === 0)
      this.violations.push('acceptances were lost and nothing was rebuilt')
    const operations = this.recorder.events.filter(({ type }) => type === 'operation').length
    return { operations, told: this.#told().length, lost_with_redis: honoured, rebuilds, issued, remaining }
  }

  #told(): Acceptance[] {
    return this.flood?.told ?? []
  }
}
