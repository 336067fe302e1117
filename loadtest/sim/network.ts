import type { Random } from './random.ts'
import { Process, type Scheduler, scope } from './scheduler.ts'
import type { Trace } from './trace.ts'

/** What may become of one operation of a process, out of a thousand. */
export interface Troubles {
  /** Done, and its answer never arrives: the connection breaks, or it times out. */
  lost: number
  /** Not done; the caller can't tell it from `lost`. */
  failed: number
  /** Its answer takes seconds. */
  late: number
  /** The process ends before it is sent, or after it was done and before the answer is there. */
  crash: number
}

/** What a world does to its operations. */
export interface Weather {
  readonly pace: Pace
  readonly troubles: Troubles
  /** A script whose calls fail often. */
  readonly fickle: string | undefined
}

/** How long ways take, ms. */
export type Pace = 'even' | 'quick' | 'mixed' | 'slow'

export interface Operation<T> {
  store: 'redis' | 'postgres'
  what: string
  run(): Promise<T>
  /** What the story says of the answer. */
  told?(answer: T): string
  /** What the caller gets instead of an answer. */
  broken(): Error
  /** Whether it still arrives when its sender died on the way. A transaction's statements come from the sender's code. */
  outlives: boolean
}

type Fate = 'well' | 'lost' | 'failed' | 'dies before' | 'dies after'

/**
 * The way between processes and stores. Every call parks here as an event: it arrives a while later, is done by the
 * real store, and its answer takes a while again; in between others run.
 */
export class Network {
  readonly scheduler: Scheduler
  readonly trace: Trace
  readonly #random: Random
  readonly #pace: Pace
  readonly #troubles: Troubles
  readonly #fickle: string | undefined
  /** Owns what is on its way: it never dies. */
  readonly #carrier = new Process('network')
  /** Whether anything goes wrong at all. */
  stormy = true
  #transactions = 0
  readonly #waiting: (() => void)[] = []

  constructor(scheduler: Scheduler, trace: Trace, random: Random, weather: Weather) {
    this.scheduler = scheduler
    this.trace = trace
    this.#random = random
    this.#pace = weather.pace
    this.#troubles = weather.troubles
    this.#fickle = weather.fickle
  }

  note(what: string, who = scope()): void {
    this.trace.add(this.scheduler.nowMs, `${who.process.name} ${who.part}`.trim(), what)
  }

  /** One way, in ms. */
  latency(): number {
    const random = this.#random
    const even = random.int(0, 2)
    if (!this.stormy) return even
    switch (this.#pace) {
      case 'even':
        return even
      case 'quick':
        return random.chance(0.1) ? random.int(0, 20) : even
      case 'mixed':
        return random.chance(0.05) ? random.int(5, 400) : random.int(0, 5)
      case 'slow':
        return random.chance(0.03) ? random.int(100, 2_500) : random.int(2, 60)
    }
  }

  operate<T>(operation: Operation<T>): Promise<T> {
    const mine = scope()
    const fate = this.#fate(operation.what)
    const arrives = operation.outlives && this.#random.chance(0.5)
    return new Promise<T>((resolve, reject) => {
      const arrive = () => {
        if (operation.store === 'postgres' && this.#transactions > 0) {
          this.#waiting.push(arrive)
          return
        }
        const dead = !mine.process.alive
        if (dead && !arrives) return
        this.#perform(operation, mine, dead ? 'well' : fate, resolve, reject).catch((error) =>
          this.scheduler.fail(error),
        )
      }
      this.scheduler.after(this.latency(), this.#carrier, arrive)
    })
  }

  /** Nobody else's statement reaches Postgres until it is over: a lock that is held can't hold up the simulation. */
  beginTransaction(): () => void {
    this.#transactions += 1
    return () => {
      this.#transactions -= 1
      for (const arrive of this.#waiting.splice(0)) this.scheduler.after(0, this.#carrier, arrive)
    }
  }

  async #perform<T>(
    operation: Operation<T>,
    mine: ReturnType<typeof scope>,
    fate: Fate,
    resolve: (value: T) => void,
    reject: (error: unknown) => void,
  ): Promise<void> {
    const { process } = mine
    const { what } = operation
    if (fate === 'dies before') {
      this.note(`!! dies before: ${what}`, mine)
      process.kill()
      return
    }
    if (fate === 'failed') {
      this.note(`${what}  !! not done, no answer`, mine)
      this.scheduler.after(this.#patience(), process, () => reject(operation.broken()))
      return
    }
    let outcome: { value: T } | { error: unknown }
    try {
      outcome = { value: await operation.run() }
    } catch (error) {
      outcome = { error }
    }
    const said =
      'value' in outcome
        ? (operation.told?.(outcome.value) ?? '')
        : `error: ${(outcome.error as Error)?.message}`
    if (!process.alive) {
      this.note(`${what} → ${said}  !! nobody is there to hear it`, mine)
      return
    }
    if (fate === 'dies after') {
      this.note(`${what} → ${said}  !! dies before it hears`, mine)
      process.kill()
      return
    }
    if (fate === 'lost') {
      this.note(`${what} → ${said}  !! the answer is lost`, mine)
      this.scheduler.after(this.#patience(), process, () => reject(operation.broken()))
      return
    }
    this.note(`${what} → ${said}`, mine)
    const back = this.#backLatency()
    this.scheduler.after(back, process, () =>
      'value' in outcome ? resolve(outcome.value) : reject(outcome.error),
    )
  }

  #fate(what: string): Fate {
    if (!this.stormy) return 'well'
    if (this.#fickle !== undefined && what.startsWith(`${this.#fickle} `) && this.#random.chance(0.4))
      return this.#random.weighted<Fate>({
        well: 0,
        lost: 60,
        failed: 20,
        'dies before': 5,
        'dies after': 15,
      })
    const { lost, failed, crash } = this.#troubles
    let at = this.#random.next() * 1_000
    at -= lost
    if (at < 0) return 'lost'
    at -= failed
    if (at < 0) return 'failed'
    at -= crash
    if (at < 0) return this.#random.chance(0.5) ? 'dies before' : 'dies after'
    return 'well'
  }

  /** A broken connection is noticed at once, a silent one by the caller's own time limit. */
  #patience(): number {
    return this.#random.chance(0.7) ? this.latency() : 5_000
  }

  #backLatency(): number {
    if (this.stormy && this.#random.chance(this.#troubles.late / 1_000)) return this.#random.int(1_000, 4_900)
    return this.latency()
  }
}
