import { AsyncLocalStorage } from 'node:async_hooks'
import type { Random } from './random.ts'

/**
 * Virtual time, and one thing at a time. Whatever anybody waits for is an event with an instant; the earliest runs
 * next, and of those at one instant a random one. Before the next event everything is let come to rest, so between
 * two events nothing runs: there a process can be killed, and the same seed always takes the same way.
 */

/** Something that can be killed with all that it was waiting for. */
export class Process {
  readonly name: string
  alive = true
  /** Called when it dies. */
  readonly onDeath = new Set<() => void>()

  constructor(name: string) {
    this.name = name
  }

  kill(): void {
    if (!this.alive) return
    this.alive = false
    for (const die of [...this.onDeath]) die()
  }
}

/** What the running code belongs to, also across its awaits. */
export interface Scope {
  readonly process: Process
  /** Of a process, for the story. */
  readonly part: string
}

const scopes = new AsyncLocalStorage<Scope>()

export function within<T>(process: Process, part: string, work: () => T): T {
  return scopes.run({ process, part }, work)
}

/** Has `run` belong to whoever runs now, whenever it is called. */
export function bound<A extends unknown[]>(run: (...args: A) => void): (...args: A) => void {
  const mine = scope()
  return (...args) => scopes.run(mine, run, ...args)
}

/** @throws where code runs that belongs to nobody: it could not be killed. */
export function scope(): Scope {
  const found = scopes.getStore()
  if (found === undefined) throw new Error('this code belongs to no process of the simulation')
  return found
}

export interface Event {
  readonly atMs: number
  readonly tie: number
  readonly process: Process
  readonly run: () => void
  cancelled: boolean
}

export class Scheduler {
  /** Virtual ms since the epoch, whole. */
  nowMs: number
  readonly startedAtMs: number
  readonly random: Random
  /** Events run so far. */
  events = 0
  readonly #heap: Event[] = []
  #busy = 0
  #whenIdle: (() => void) | undefined
  #fault: { error: unknown } | undefined

  constructor(nowMs: number, random: Random) {
    this.nowMs = nowMs
    this.startedAtMs = nowMs
    this.random = random
  }

  get elapsedMs(): number {
    return this.nowMs - this.startedAtMs
  }

  /** Runs `work` after so many ms, unless it is cancelled or its process is dead by then. */
  after(ms: number, process: Process, run: () => void): Event {
    const delay = Number.isFinite(ms) && ms > 0 ? Math.ceil(ms) : 0
    const event: Event = {
      atMs: this.nowMs + delay,
      tie: this.random.next(),
      process,
      run,
      cancelled: false,
    }
    push(this.#heap, event)
    return event
  }

  sleep(ms: number, process = scope().process): Promise<void> {
    return new Promise((resolve) => {
      this.after(ms, process, resolve)
    })
  }

  /** Until the returned function is called, real work is under way outside of this process: nothing else happens. */
  hold(): () => void {
    this.#busy += 1
    let held = true
    return () => {
      if (!held) return
      held = false
      this.#busy -= 1
      if (this.#busy === 0) this.#whenIdle?.()
    }
  }

  /** Holds everything else until this work has its answer. */
  async real<T>(work: PromiseLike<T>): Promise<T> {
    const release = this.hold()
    try {
      return await work
    } finally {
      release()
    }
  }

  /** A fault of the simulation itself: ends the run. */
  fail(error: unknown): void {
    this.#fault ??= { error }
  }

  /** Runs events until `done`, or until nothing is left to happen. */
  async run(done: () => boolean): Promise<void> {
    await this.settle()
    while (!done()) {
      const event = pop(this.#heap)
      if (event === undefined) return
      if (event.cancelled || !event.process.alive) continue
      this.nowMs = Math.max(this.nowMs, event.atMs)
      this.events += 1
      event.run()
      await this.settle()
    }
  }

  /** Until all code waits for an event: no promise is left to go on, no real work is under way. */
  async settle(): Promise<void> {
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    for (await turn(); this.#busy > 0; await turn()) await this.#idle()
    this.#whenIdle = undefined
    if (this.#fault !== undefined) throw this.#fault.error
  }

  #idle(): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = setTimeout(() => reject(new Error(`a step takes longer than ${stepMs} ms`)), stepMs)
      this.#whenIdle = () => {
        clearTimeout(late)
        resolve()
      }
    })
  }
}

/** A store that takes longer for one step hangs: it waits for something that only a later step could bring. */
const stepMs = 20_000

const isBefore = (a: Event, b: Event) => a.atMs < b.atMs || (a.atMs === b.atMs && a.tie < b.tie)

function push(heap: Event[], event: Event): void {
  let at = heap.push(event) - 1
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (!isBefore(event, heap[parent]!)) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = event
}

function pop(heap: Event[]): Event | undefined {
  const first = heap[0]
  const last = heap.pop()
  if (first === undefined || last === undefined || heap.length === 0) return first
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && isBefore(heap[child + 1]!, heap[child]!)) child += 1
    if (!isBefore(heap[child]!, last)) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = last
  return first
}
