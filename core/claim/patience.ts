import { setTimeout as sleep } from 'node:timers/promises'

const firstMs = 25
const longestMs = 2_000

/** Waits before the attempt after the `failed`th failed one: twice as long each time, up to 2 s, with jitter. */
export async function backOff(failed: number, signal: AbortSignal): Promise<void> {
  const most = Math.min(longestMs, firstMs * 2 ** Math.min(failed, 10))
  await sleep(most * (0.5 + Math.random() / 2), undefined, { signal })
}

/** Whether this failure in a row is worth a line in the log: the first, and then ever fewer. */
export function isWorthTelling(failed: number): boolean {
  return (failed & (failed - 1)) === 0
}

/** A wait that ends early when someone wakes it; a call before the wait is not lost. */
export interface Alarm {
  /** Resolves after `ms`, or at once after `wake` or an abort. */
  wait(ms: number): Promise<void>
  wake(): void
}

export function makeAlarm(signal: AbortSignal): Alarm {
  let woken = false
  let ring: (() => void) | undefined
  const wake = () => {
    woken = true
    ring?.()
  }
  signal.addEventListener('abort', wake, { once: true })
  return {
    wake,
    async wait(ms) {
      if (!woken && !signal.aborted) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms)
          ring = () => {
            clearTimeout(timer)
            resolve()
          }
        })
        ring = undefined
      }
      woken = false
    },
  }
}

/** @throws when the work takes longer than `ms`; it is then left to itself. */
export async function within<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: no answer in ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
