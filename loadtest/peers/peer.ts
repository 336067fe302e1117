import { randomUUID } from 'node:crypto'
import { until } from '../../stack/process.ts'
import { type Service, startService } from '../../stack/service.ts'
import type { Stack } from '../../stack/stack.ts'
import { HttpClient } from '../traffic/client.ts'
import type { Contestant, KillKind, Opened } from './contestant.ts'
import type { Press } from './crowd.ts'
import type { Design, Stores } from './designs/design.ts'
import { PowerCut } from './powerCut.ts'
import { closeStores, openStores } from './stores.ts'

const restWithinMs = 20_000
const quietMs = 250

/** A peer on the stack's Redis and Postgres, with processes that are new for each campaign. */
export class Peer implements Contestant {
  readonly name: string
  readonly about: string
  readonly path = 'plain HTTP from one Node process to the stores; no login, token, limits or receipt'
  readonly kinds: readonly KillKind[]
  readonly #design: Design
  readonly #stack: Stack
  readonly #stores: Stores
  #front: Service | undefined
  #consumer: Service | undefined
  #power: PowerCut | undefined

  constructor(design: Design, stack: Stack) {
    this.name = design.name
    this.about = design.about
    this.kinds = design.consume === undefined ? ['service', 'store'] : ['service', 'consumer', 'store']
    this.#design = design
    this.#stack = stack
    this.#stores = openStores(stack.endpoints.redis, stack.endpoints.postgres)
  }

  async open(quota: number, users: number): Promise<Opened> {
    await until(() => this.#isUp(), 'the stores are away', restWithinMs)
    await this.#design.prepare(this.#stores, quota)
    this.#front = await this.#start('front')
    if (this.#design.consume !== undefined) this.#consumer = await this.#start('consumer')
    const { url } = this.#front
    const encoder = new HttpClient(url, 1)
    const run = randomUUID().slice(0, 8)
    const make = (): Press[] =>
      Array.from({ length: users }, (_, i) => {
        const userId = `user-${run}-${i}`
        const headers = { 'User-Id': userId, 'Idempotency-Key': randomUUID() }
        return { userId, request: encoder.encode('POST', '/claims', headers) }
      })
    this.#power = new PowerCut(this.#stack.part('redis'), this.#stack.dir)
    return {
      url,
      presses: make(),
      others: make(),
      hear: (_, { status }) => (status === 202 ? 'yes' : status === 409 ? 'no' : 'again'),
      rest: () => this.#rest(),
      look: async () => {
        const rows = await this.#stores.sql`SELECT user_id FROM peer_coupons`
        const remaining = await this.#design.remaining(this.#stores)
        return { coupons: rows.map((row) => String(row['user_id'])), remaining, withdrawn: new Set<string>() }
      },
      close: async () => {
        this.#power?.close()
        await Promise.all([this.#front?.kill(), this.#consumer?.kill()])
      },
    }
  }

  async kill(kind: KillKind): Promise<() => Promise<void>> {
    if (kind === 'store') return this.#killStore()
    if (kind === 'service') {
      const port = new URL(this.#front!.url).port
      await this.#front!.kill()
      return async () => {
        this.#front = await this.#start('front', port)
      }
    }
    await this.#consumer!.kill()
    return async () => {
      this.#consumer = await this.#start('consumer')
    }
  }

  async stop(): Promise<void> {
    await closeStores(this.#stores)
  }

  async #killStore(): Promise<() => Promise<void>> {
    const part = this.#stack.part(this.#design.store)
    if (this.#design.store === 'redis') await this.#power!.cut()
    else await part.kill()
    return () => part.start()
  }

  #start(role: 'front' | 'consumer', port = '0'): Promise<Service> {
    return startService({
      name: `peer-${role}`,
      file: 'loadtest/peers/service.ts',
      dir: this.#stack.dir,
      env: {
        PEER_DESIGN: this.name,
        PEER_ROLE: role,
        PEER_PORT: port,
        REDIS_URL: this.#stack.endpoints.redis,
        DATABASE_URL: this.#stack.endpoints.postgres,
      },
    })
  }

  async #isUp(): Promise<boolean> {
    try {
      return (await this.#stores.redis.ping()) === 'PONG' && (await this.#stores.sql`SELECT 1`).length === 1
    } catch {
      return false
    }
  }

  /** Nothing queued, and nothing new for a moment. */
  async #rest(): Promise<void> {
    let quietSince = 0
    const isQuiet = async () => {
      const pending = await this.#design.pending(this.#stores).catch(() => 1)
      if (pending > 0) quietSince = 0
      else quietSince ||= Date.now()
      return quietSince > 0 && Date.now() - quietSince > quietMs
    }
    await until(isQuiet, `${this.name} does not come to rest`, restWithinMs, 25)
  }
}
