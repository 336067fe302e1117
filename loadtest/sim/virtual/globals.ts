import type { Random } from '../random.ts'
import { bound, type Event, type Scheduler, scope } from '../scheduler.ts'

/**
 * What the product's modules find under these names while they are simulated (hooks.ts puts them there): timers and
 * clocks of virtual time, and random numbers of the seed.
 */

interface Stage {
  scheduler: Scheduler
  random: Random
}

let stage: Stage | undefined
/** Of modules that keep something beyond a seed: they forget it. */
const resets: (() => void)[] = []

/** From now on the product lives in this seed's time. */
export function enter(next: Stage): void {
  stage = next
  for (const reset of resets) reset()
}

function current(): Stage {
  if (stage === undefined) throw new Error('the product asks for the time before a seed has begun')
  return stage
}

/** What Node's timers have that the product uses. */
class Timer {
  event: Event | undefined
  unref(): this {
    return this
  }
  ref(): this {
    return this
  }
}

type Callback = (...args: unknown[]) => void

function startTimer(run: Callback, ms = 0, ...args: unknown[]): Timer {
  const timer = new Timer()
  timer.event = current().scheduler.after(
    ms,
    scope().process,
    bound(() => run(...args)),
  )
  return timer
}

function startInterval(run: Callback, ms = 0, ...args: unknown[]): Timer {
  const timer = new Timer()
  const { process } = scope()
  const { scheduler } = current()
  const beat = bound(() => {
    timer.event = scheduler.after(Math.max(1, ms), process, beat)
    run(...args)
  })
  timer.event = scheduler.after(Math.max(1, ms), process, beat)
  return timer
}

function stopTimer(timer: Timer | undefined): void {
  if (timer?.event !== undefined) timer.event.cancelled = true
}

/** As `setTimeout` of node:timers/promises. */
export function sleep<T>(ms = 0, value?: T, options: { signal?: AbortSignal } = {}): Promise<T> {
  const { signal } = options
  const aborted = () => Object.assign(new Error('The operation was aborted'), { code: 'ABORT_ERR' })
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(aborted())
      return
    }
    const timer = startTimer(() => resolve(value as T), ms)
    signal?.addEventListener('abort', () => {
      stopTimer(timer)
      reject(aborted())
    })
  })
}

export const randomBytesOf = (count: number): Uint8Array => current().random.bytes(count)

export const globals = {
  setTimeout: startTimer,
  clearTimeout: stopTimer,
  setInterval: startInterval,
  clearInterval: stopTimer,
  performance: { now: () => current().scheduler.elapsedMs },
  Math: Object.assign(Object.create(Math) as Math, { random: () => current().random.next() }),
  AbortSignal: {
    timeout(ms: number): AbortSignal {
      const abort = new AbortController()
      startTimer(() => abort.abort(new DOMException('no answer in time', 'TimeoutError')), ms)
      return abort.signal
    },
  },
  resets,
}

export const globalsKey = Symbol.for('tidegate.simulation')
Object.assign(globalThis, { [globalsKey]: globals })
