import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import postgres from 'postgres'
import { until } from '../../stack/process.ts'
import type { Stack } from '../../stack/stack.ts'
import { openCampaign } from '../traffic/campaign.ts'
import { HttpClient } from '../traffic/client.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import { claimTokenRing, sealedClaims } from '../traffic/sealedClaims.ts'
import type { Contestant, KillKind, Opened } from './contestant.ts'
import type { Press } from './crowd.ts'
import { PowerCut } from './powerCut.ts'

const restWithinMs = 30_000
const quietMs = 400
const killed = { service: 'edge', consumer: 'core', store: 'redis' } as const

interface Promised {
  readonly requestId: string
  readonly receipt: string
}

/** The whole product: worker runtime, gateway, Redis, core and Postgres. */
export class Ours implements Contestant {
  readonly name = 'tidegate'
  readonly about = 'Edge with group commit, one script with its log, drain in one transaction, receipts'
  readonly path =
    'the worker runtime, token proof, limits, receipt, Upstash gateway; tokens were sealed beforehand'
  readonly kinds: readonly KillKind[] = ['service', 'consumer', 'store']
  readonly #stack: Stack
  readonly #sql: postgres.Sql
  readonly #redis: Redis
  #power: PowerCut | undefined

  constructor(stack: Stack) {
    this.#stack = stack
    this.#sql = postgres(stack.endpoints.postgres, { max: 2, onnotice: () => undefined })
    this.#redis = new Redis(stack.endpoints.redis, { maxRetriesPerRequest: 0, retryStrategy: () => 100 })
    this.#redis.on('error', () => undefined)
  }

  async open(quota: number, users: number): Promise<Opened> {
    const now = Date.now()
    const window = { startsAtMs: now - 1_000, endsAtMs: now + 3_600_000 }
    const id = await openCampaign(this.#stack, { name: 'Peers', quota, bucketCount: 1, ...window })
    const gate = `tg:{${id}:0}:gate`
    const leased = async () => Number(await this.#redis.hget(gate, 'lease_until').catch(() => 0)) > Date.now()
    await until(leased, 'the campaign does not open', restWithinMs, 20)
    const client = new HttpClient(this.#stack.endpoints.edge, 16)
    const told = new Map<string, Promised>()
    const { presses, others } = this.#presses(client, id, users)
    this.#power = new PowerCut(this.#stack.part('redis'), this.#stack.dir)
    return {
      url: this.#stack.endpoints.edge,
      presses,
      others,
      hear: ({ userId }, { status, body }) => {
        if (status === 202) {
          const { request_id: requestId, receipt } = JSON.parse(body) as Record<string, string>
          told.set(userId, { requestId: requestId!, receipt: receipt! })
          return 'yes'
        }
        // A 5xx is no decision, whatever it says: the same key again tells.
        return status >= 500 || status === 429 ? 'again' : 'no'
      },
      rest: () => this.#rest(id),
      look: async () => {
        // What can't be presented or does not come to rest is judged as it stands.
        await this.#presentReceipts(client, id, told).catch(() => undefined)
        await this.#rest(id).catch(() => undefined)
        return this.#look(id, gate)
      },
      close: async () => {
        this.#power?.close()
        client.close()
      },
    }
  }

  async kill(kind: KillKind): Promise<() => Promise<void>> {
    const part = this.#stack.part(killed[kind])
    if (kind === 'store') await this.#power!.cut()
    else await part.kill()
    return () => part.start()
  }

  async stop(): Promise<void> {
    this.#redis.disconnect()
    await this.#sql.end({ timeout: 2 })
  }

  #presses(client: HttpClient, campaignId: string, users: number) {
    const ring = claimTokenRing(this.#stack)
    const run = randomUUID().slice(0, 8)
    const userIds = Array.from({ length: users }, (_, i) => `user-${run}-${i}`)
    const make = (series: number): Press[] => sealedClaims(ring, client, campaignId, userIds, series)
    return { presses: make(0), others: make(1) }
  }

  async #look(id: string, gate: string) {
    const coupons = await this.#sql`SELECT user_id FROM coupons WHERE campaign_id = ${id}`
    const rejected = await this.#sql`
      SELECT user_id FROM claims WHERE campaign_id = ${id} AND status = 'REJECTED' AND reason IS NOT NULL`
    const [stock] = await this.#sql`SELECT unallocated FROM campaign_stock WHERE campaign_id = ${id}`
    const inGate = Number(await this.#redis.hget(gate, 'remaining'))
    return {
      coupons: coupons.map((row) => String(row['user_id'])),
      remaining: inGate + Number(stock!['unallocated']),
      withdrawn: new Set(rejected.map((row) => String(row['user_id']))),
    }
  }

  /** As the page does with an acceptance whose claim is not known any more. */
  async #presentReceipts(client: HttpClient, id: string, told: ReadonlyMap<string, Promised>): Promise<void> {
    const rows = await this.#sql`SELECT request_id::text AS id FROM claims WHERE campaign_id = ${id}`
    const known = new Set(rows.map((row) => String(row['id'])))
    const lost = [...told].filter(([, { requestId }]) => !known.has(requestId))
    await closedLoop(lost.length, 8, async (i) => {
      const [userId, { receipt }] = lost[i]!
      const login = await this.#stack.mintLogin({ user: userId })
      const headers = { Authorization: `Bearer ${login}`, 'Content-Type': 'application/json' }
      const request = client.encode('POST', '/v1/receipts', headers, JSON.stringify({ receipt }))
      const taken = () =>
        client.send(request).then(
          (reply) => reply.status === 200,
          () => false,
        )
      await until(taken, 'a receipt is not taken', restWithinMs, 200)
    })
  }

  /** Logs empty, no compensation open, and so it stays for a moment. */
  async #rest(id: string): Promise<void> {
    let quietSince = 0
    const isQuiet = async () => {
      const open = await this.#open(id).catch(() => 1)
      if (open > 0) quietSince = 0
      else quietSince ||= Date.now()
      return quietSince > 0 && Date.now() - quietSince > quietMs
    }
    await until(isQuiet, 'the product does not come to rest', restWithinMs, 40)
  }

  async #open(id: string): Promise<number> {
    const [row] = await this.#sql`
      SELECT count(*)::int AS n FROM compensations WHERE campaign_id = ${id} AND state <> 'CLOSED'`
    return Number(row!['n']) + (await this.#redis.xlen(`tg:{${id}:0}:log`))
  }
}
