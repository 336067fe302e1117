import type { Redis } from 'ioredis'
import { type Bucket, gateKey, logKey, movesKey, usersKey } from '../../lua/keys.ts'
import { clockKey } from './hooks.ts'
import type { Scheduler } from './scheduler.ts'

/** What a gate held after a step, for checks that need to know how it went. */
export interface GateMoment {
  atMs: number
  remaining: number
  accepted: number
  state: string
}

/** Scripts that do a thing once: the answer when they do it, and how many arguments name the thing. */
const once: Readonly<Record<string, { done: string; words: number; invariant: number }>> = {
  withdraw: { done: 'moved', words: 1, invariant: 9 },
  deposit: { done: 'moved', words: 1, invariant: 9 },
  compensate: { done: 'returned', words: 2, invariant: 6 },
}

/** A rewind's goal: every key of the campaign as it was. */
interface Snapshot {
  atMs: number
  values: Map<string, Buffer>
}

/**
 * The real Redis, at virtual time: its scripts read the clock from a key, which is set before each command when the
 * time has changed. It can be set back to an earlier state, as by a failover to a replica that lags.
 */
export class RedisServer {
  readonly redis: Redis
  readonly #scheduler: Scheduler
  readonly buckets: readonly Bucket[]
  #clockMs = -1
  readonly #snapshots: Snapshot[] = []
  /** Which life of the server this is. */
  life = 1
  offset = 0
  /** How often it forgot something. */
  losses = 0
  lossesAtMs: number[] = []
  /** By gate: when it was rebuilt. */
  readonly rebuildsAtMs = new Map<string, number[]>()
  readonly moments = new Map<string, GateMoment[]>()
  /** When each log entry was last delivered: idle times are of virtual time. */
  readonly deliveredAtMs = new Map<string, number>()
  /** Told when a log may hold something new. */
  readonly onWrite = new Set<() => void>()
  readonly #done = new Set<string>()
  /** What a gate said that no gate may. */
  readonly faults: string[] = []

  constructor(redis: Redis, scheduler: Scheduler, buckets: readonly Bucket[]) {
    this.redis = redis
    this.#scheduler = scheduler
    this.buckets = buckets
  }

  /** Runs commands now, at the present virtual time. */
  async now<T>(work: (redis: Redis) => Promise<T>): Promise<T> {
    const { nowMs } = this.#scheduler
    if (nowMs !== this.#clockMs) {
      this.#clockMs = nowMs
      this.redis.set(clockKey, String(nowMs)).catch((error) => this.#scheduler.fail(error))
    }
    this.offset += 1
    return this.#scheduler.real(work(this.redis))
  }

  /** A loaded script, and what it left in its gate. @param args of EVALSHA */
  async script(name: string, args: readonly string[]): Promise<unknown> {
    const gate = args[2]!
    const [answer, fields] = await this.now((redis) =>
      Promise.all([redis.call('evalsha', ...args), redis.hgetall(gate)]),
    )
    this.#note(gate, fields, name)
    this.#noteOnce(name, gate, args, String(answer))
    if (answer === 'rebuilt') {
      this.rebuildsAtMs.set(gate, [...(this.rebuildsAtMs.get(gate) ?? []), this.#scheduler.nowMs])
      // The new gate counts from the ledger: what that had not recorded is still to be done.
      for (const what of this.#done) if (what.includes(gate)) this.#done.delete(what)
    }
    return answer
  }

  /** A transfer moves a gate once for its id, and a request's stock comes back once, however often it is asked for. */
  #noteOnce(name: string, gate: string, args: readonly string[], answer: string): void {
    const of = once[name]
    if (of === undefined || !answer.startsWith(of.done)) return
    const what = `${name} of ${gate} for ${args.slice(4, 4 + of.words).join(' ')}`
    if (this.#done.has(what)) this.faults.push(`${of.invariant}: ${what} was done twice`)
    this.#done.add(what)
  }

  /** Keeps what a gate holds now, and finds what none may hold. */
  #note(gate: string, fields: Readonly<Record<string, string>>, script?: string): void {
    const { nowMs } = this.#scheduler
    const number = (name: string) => Number(fields[name] ?? 0)
    const { state = 'none' } = fields
    const moments = this.moments.get(gate) ?? []
    this.moments.set(gate, moments)
    const last = moments.at(-1)
    const now: GateMoment = {
      atMs: nowMs,
      remaining: number('remaining'),
      state,
      accepted: number('accepted'),
    }
    if (last?.accepted !== now.accepted) for (const tell of this.onWrite) tell()
    if (last?.remaining !== now.remaining || last.state !== state || last.accepted !== now.accepted)
      moments.push(now)
    if (state === 'none') return
    if (now.remaining < 0) this.faults.push(`1: ${gate} has ${now.remaining} left`)
    const sum = now.remaining + now.accepted - number('returned')
    if (sum !== number('allocated'))
      this.faults.push(`9: ${gate} was given ${fields['allocated']} and accounts for ${sum}`)
    if (script !== 'claim' || last === undefined || now.accepted <= last.accepted) return
    const isOpen = state === 'ACTIVE' && nowMs >= number('starts_at') && nowMs < number('ends_at')
    if (!isOpen || nowMs >= number('lease_until'))
      this.faults.push(
        `4: ${gate} accepted at ${nowMs}, ${state}, with a lease until ${fields['lease_until']}`,
      )
  }

  #keys(): string[] {
    return this.buckets.flatMap((bucket) => [
      gateKey(bucket),
      usersKey(bucket),
      logKey(bucket),
      movesKey(bucket),
    ])
  }

  /** Keeps the present state, to go back to. */
  async remember(): Promise<void> {
    const keys = this.#keys()
    const dumps = await this.now((redis) => Promise.all(keys.map((key) => redis.dumpBuffer(key))))
    const values = new Map<string, Buffer>()
    keys.forEach((key, i) => {
      const dump = dumps[i]
      if (dump) values.set(key, dump as Buffer)
    })
    this.#snapshots.push({ atMs: this.#scheduler.nowMs, values })
  }

  /**
   * Goes back to a state that was kept, or to nothing.
   * @param seen whether the server then says that it is another one; otherwise only its offset falls.
   * @returns from when the state is; undefined: it is empty.
   */
  async rewind(which: number | 'empty', seen: boolean): Promise<number | undefined> {
    const snapshot =
      which === 'empty' ? undefined : this.#snapshots[which % Math.max(1, this.#snapshots.length)]
    const keys = this.#keys()
    await this.now(async (redis) => {
      await redis.del(...keys)
      for (const [key, value] of snapshot?.values ?? []) await redis.restore(key, 0, value)
    })
    this.losses += 1
    // What was done may not have been done in that state.
    this.#done.clear()
    this.lossesAtMs.push(this.#scheduler.nowMs)
    if (seen) this.life += 1
    this.offset = Math.floor(this.offset / 2)
    for (const bucket of this.buckets) {
      this.#note(gateKey(bucket), await this.now((redis) => redis.hgetall(gateKey(bucket))))
    }
    for (const tell of this.onWrite) tell()
    return snapshot?.atMs
  }

  /** As INFO says it, as far as anybody reads it. */
  get info(): string {
    const id = `life-${this.life}`
    return `run_id:${id}\r\nmaster_replid:${id}\r\nmaster_repl_offset:${this.offset}\r\nmaxmemory_policy:noeviction\r\n`
  }
}
