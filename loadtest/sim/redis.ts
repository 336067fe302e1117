import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { scripts } from '../../lua/scripts.generated.ts'
import type { Network } from './network.ts'
import { bound, type Process, type Scope, scope, within } from './scheduler.ts'
import type { RedisServer } from './server.ts'

/**
 * The core's way to the real Redis over TCP. Each command is one operation. What depends on time or on a connection is
 * the simulation's: blocking reads, idle times of log entries, subscriptions, INFO and TIME.
 */

const names = new Map(Object.values(scripts).map(({ name, sha1 }) => [sha1 as string, name as string]))

export const connectionClosed = () => new Error('Connection is closed.')

/** A bucket's key without its campaign, which is always the same one. */
const short = (text: string) => text.replace(/tg:\{[^:]+:(\d+)\}:/g, '$1:')

export const scriptName = (sha1: string) => names.get(sha1) ?? 'script'

export function describeScript(args: readonly string[]): string {
  const keys = Number(args[1])
  const name = scriptName(args[0]!)
  const bucket = /:(\d+)\}/.exec(args[2] ?? '')?.[1] ?? '?'
  return `${name} ${bucket} (${args
    .slice(2 + keys)
    .join(' ')
    .slice(0, 400)})`
}

const describeReply = (reply: unknown): string =>
  typeof reply === 'string'
    ? reply.replaceAll('\n', ' | ')
    : (JSON.stringify(reply)?.slice(0, 200) ?? 'nothing')

/** Everybody who has subscribed. */
export interface Bus {
  readonly subscribers: Set<SimulatedConnection>
}

export function simulatedRedis(store: RedisServer, network: Network, bus: Bus): Redis {
  const operate = <T>(what: string, run: () => Promise<T>, told: (answer: T) => string = describeReply) =>
    network.operate({ store: 'redis', what, run, told, broken: connectionClosed, outlives: true })

  const own: Record<string, (...args: never[]) => unknown> = {
    evalsha: (...args: string[]) =>
      operate(describeScript(args.map(String)), () =>
        store.script(scriptName(String(args[0])), args.map(String)),
      ),
    eval: () => {
      throw new Error('all scripts are loaded before a seed begins')
    },
    info: () =>
      operate(
        'info',
        async () => store.info,
        () => `life ${store.life}`,
      ),
    time: () =>
      operate('time', async () => {
        const { nowMs } = network.scheduler
        return [String(Math.floor(nowMs / 1000)), String((nowMs % 1000) * 1000)]
      }),
    publish: (_: string, message: string) =>
      operate(`publish ${message.length} bytes`, async () => {
        for (const connection of bus.subscribers) connection.deliver(message)
        return bus.subscribers.size
      }),
    client: (verb: string, id?: number) => {
      if (verb === 'UNBLOCK') SimulatedConnection.unblock(id!)
      return Promise.resolve(1)
    },
    call: (verb: string, ...args: (string | number)[]) =>
      verb === 'XPENDING'
        ? operate(short(`xpending ${args.join(' ')}`), () => pendingIn(store, network, args))
        : operate(
            short(`${verb.toLowerCase()} ${args.join(' ')}`),
            () => store.now((redis) => redis.call(verb, ...args)),
            () => '',
          ),
    xautoclaim: (...args: (string | number)[]) =>
      operate(short(`xautoclaim ${args.join(' ')}`), () => autoclaim(store, network, args)),
    xreadgroup: (...args: (string | number)[]) =>
      operate(short(`xreadgroup ${args.slice(2).join(' ')}`), () => readGroup(store, network, args)),
  }
  return new Proxy({} as Redis, {
    get(_, name) {
      if (typeof name !== 'string') return undefined
      const special = own[name]
      if (special !== undefined) return special
      if (name === 'then') return undefined
      return (...args: (string | number)[]) =>
        operate(short(`${name} ${args.join(' ')}`.slice(0, 120)), () =>
          store.now((redis) =>
            (redis as unknown as Record<string, (...a: unknown[]) => Promise<unknown>>)[name]!(...args),
          ),
        )
    },
  })
}

type Entries = [id: string, fields: string[] | null][]

const placeOf = (key: string, id: string) => `${key} ${id}`

async function readGroup(
  store: RedisServer,
  network: Network,
  args: readonly (string | number)[],
): Promise<unknown> {
  const reply = (await store.now((redis) => redis.call('xreadgroup', ...args))) as [string, Entries][] | null
  for (const [key, entries] of reply ?? [])
    for (const [id] of entries) store.deliveredAtMs.set(placeOf(key, id), network.scheduler.nowMs)
  return reply
}

/** XPENDING key group IDLE ms start end count [consumer], by virtual idle times. */
async function pendingIn(
  store: RedisServer,
  network: Network,
  args: readonly (string | number)[],
): Promise<unknown> {
  const [key, group, , idleMs, ...range] = args
  const rows = (await store.now((redis) => redis.call('XPENDING', key!, group!, ...range))) as [
    string,
    string,
    number,
    number,
  ][]
  return rows.filter(([id]) => idleOf(store, network, String(key), id) >= Number(idleMs))
}

function idleOf(store: RedisServer, network: Network, key: string, id: string): number {
  return (
    network.scheduler.nowMs - (store.deliveredAtMs.get(placeOf(key, id)) ?? network.scheduler.startedAtMs)
  )
}

/** XAUTOCLAIM key group consumer idle cursor COUNT n, by virtual idle times: all at once, so the cursor ends. */
async function autoclaim(
  store: RedisServer,
  network: Network,
  args: readonly (string | number)[],
): Promise<unknown> {
  const [key, group, consumer, idleMs] = args as [string, string, string, number]
  const rows = (await store.now((redis) => redis.call('XPENDING', key, group, '-', '+', 1_000))) as [
    string,
    string,
    number,
    number,
  ][]
  const ids = rows.map(([id]) => id).filter((id) => idleOf(store, network, key, id) >= Number(idleMs))
  if (ids.length === 0) return ['0-0', [], []]
  const entries = (await store.now((redis) =>
    redis.call('XCLAIM', key, group, consumer, 0, ...ids),
  )) as Entries
  for (const [id] of entries) store.deliveredAtMs.set(placeOf(key, id), network.scheduler.nowMs)
  const there = new Set(entries.map(([id]) => id))
  return ['0-0', entries, ids.filter((id) => !there.has(id))]
}

let lastClientId = 0

/** A connection of one's own: for blocking reads, or for a subscription. It can break, and comes back. */
export class SimulatedConnection extends EventEmitter {
  static readonly #blocked = new Map<number, () => void>()
  static unblock(id: number): void {
    SimulatedConnection.#blocked.get(id)?.()
  }

  status: 'connecting' | 'ready' | 'close' | 'end' = 'connecting'
  readonly #id = ++lastClientId
  readonly #store: RedisServer
  readonly #network: Network
  readonly #bus: Bus
  readonly #mine: Scope
  /** Which time it was connected. */
  #connection = 0

  constructor(store: RedisServer, network: Network, bus: Bus) {
    super()
    this.#store = store
    this.#network = network
    this.#bus = bus
    this.#mine = scope()
    this.process.onDeath.add(() => this.#drop())
    this.#connect()
  }

  get process(): Process {
    return this.#mine.process
  }

  #connect(): void {
    const mine = ++this.#connection
    this.#network.scheduler.after(
      this.#network.latency() + 1,
      this.process,
      bound(() => {
        if (mine !== this.#connection || this.status === 'end') return
        this.status = 'ready'
        this.emit('ready')
      }),
    )
  }

  #drop(): void {
    this.#connection += 1
    this.#bus.subscribers.delete(this)
    SimulatedConnection.#blocked.delete(this.#id)
  }

  /** Its server, or the way there, is gone for a while. */
  break(): void {
    if (this.status === 'end' || !this.process.alive) return
    this.#drop()
    this.status = 'close'
    within(this.process, this.#mine.part, () => {
      SimulatedConnection.#blocked.get(this.#id)?.()
      this.emit('close')
      this.#network.scheduler.after(
        this.#network.latency() + 50,
        this.process,
        bound(() => this.#connect()),
      )
    })
  }

  disconnect(again = false): void {
    this.#drop()
    this.status = again ? 'close' : 'end'
    this.emit('close')
    if (again) this.#connect()
  }

  client(): Promise<number> {
    return Promise.resolve(this.#id)
  }

  ping(): Promise<string> {
    return this.#operate('ping', async () => 'PONG')
  }

  subscribe(channel: string): Promise<number> {
    return this.#operate(`subscribe ${channel}`, async () => {
      if (this.status === 'ready') this.#bus.subscribers.add(this)
      return 1
    })
  }

  /** A message on its way to this connection: late, twice, or, when the connection breaks meanwhile, never. */
  deliver(message: string): void {
    const connection = this.#connection
    const { scheduler } = this.#network
    const copies = this.#network.stormy && scheduler.random.chance(0.05) ? 2 : 1
    for (let i = 0; i < copies; i++)
      scheduler.after(this.#network.latency(), this.process, () => {
        if (connection !== this.#connection) return
        within(this.process, this.#mine.part, () => this.emit('message', 'results', message))
      })
  }

  /** XREADGROUP GROUP g c COUNT n BLOCK ms STREAMS …: waits in virtual time. */
  async xreadgroup(...args: (string | number)[]): Promise<unknown> {
    const { scheduler } = this.#network
    const at = args.indexOf('BLOCK')
    const untilMs = scheduler.nowMs + Number(args[at + 1])
    const plain = args.filter((_, i) => i !== at && i !== at + 1)
    const connection = this.#connection
    for (;;) {
      const reply = await this.#operate(short(`xreadgroup ${plain.slice(2).join(' ')}`), () =>
        readGroup(this.#store, this.#network, plain),
      )
      if (reply !== null || scheduler.nowMs >= untilMs) return reply
      await this.#untilWritten(untilMs - scheduler.nowMs)
      if (connection !== this.#connection) throw connectionClosed()
    }
  }

  #untilWritten(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#store.onWrite.delete(written)
        SimulatedConnection.#blocked.delete(this.#id)
        timer.cancelled = true
        resolve()
      }
      const written = () => this.#network.scheduler.after(0, this.process, done)
      const timer = this.#network.scheduler.after(ms, this.process, done)
      this.#store.onWrite.add(written)
      SimulatedConnection.#blocked.set(this.#id, written)
    })
  }

  #operate<T>(what: string, run: () => Promise<T>): Promise<T> {
    return this.#network.operate<T>({
      store: 'redis',
      what,
      run,
      told: describeReply,
      broken: connectionClosed,
      outlives: true,
    })
  }
}
