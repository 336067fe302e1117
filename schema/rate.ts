/**
 * A limit: never more than `count` in any window of `per_ms`, wherever the window starts, of which up to `burst`
 * may come at once (half of `count` unless given).
 */
export interface RateLimit {
  count: number
  per_ms: number
  burst?: number | undefined
}

/** How a limit is kept: `burst` at once, then one every `intervalMs`. */
export interface Rate {
  readonly burst: number
  readonly intervalMs: number
}

/**
 * A bucket of `burst` that refills evenly lets `burst` plus one an interval through in a window: so the interval
 * is that of the rest of `count`, and no edge between windows doubles anything (case-K4).
 */
export function rateOf({ count, per_ms: perMs, burst = Math.ceil(count / 2) }: RateLimit): Rate {
  return { burst, intervalMs: perMs / (burst === 1 ? count : count - burst) }
}

const units = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const
const form = /^(\d{1,9})\/(\d{1,6})(ms|s|m|h)(?::(\d{1,9}))?$/

/** Reads `count/time[:burst]`, such as `60/1m` or `10/5s:5`; undefined when it says nothing that can be kept. */
export function parseRateLimit(text: string): RateLimit | undefined {
  const [, count, time, unit, burst] = form.exec(text) ?? []
  if (count === undefined) return undefined
  const limit: RateLimit = { count: Number(count), per_ms: Number(time) * units[unit as keyof typeof units] }
  if (burst !== undefined) limit.burst = Number(burst)
  return isRateLimit(limit) ? limit : undefined
}

/** Whether the limit can be kept: something may pass, and after a burst something of `count` is left to refill. */
export function isRateLimit({ count, per_ms: perMs, burst }: RateLimit): boolean {
  if (count < 1 || perMs < 1) return false
  return burst === undefined || burst === 1 || (burst > 0 && burst < count)
}
