import { bounds } from './bounds.ts'

/** Tells operators of something that no client is told. `fields` are JSON values; never a token, key or body. */
export type Log = (event: string, fields?: Record<string, unknown>) => void

/**
 * One JSON line an event, and at most one of the same event a second: when a dependency is away, every request
 * finds out, and the next line says how many did.
 */
export function makeLog(clock: () => number, write: (line: string) => void): Log {
  const last = new Map<string, { atMs: number; suppressed: number }>()
  return (event, fields) => {
    const nowMs = clock()
    const before = last.get(event)
    if (before !== undefined && nowMs - before.atMs < bounds.logEveryMs) {
      before.suppressed++
      return
    }
    last.set(event, { atMs: nowMs, suppressed: 0 })
    const suppressed = before?.suppressed ? { suppressed: before.suppressed } : {}
    write(JSON.stringify({ event, ...fields, ...suppressed }))
  }
}

/** A caught value as a field: its class and message, and the same of its cause. */
export function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { error: typeof error }
  const cause = error.cause instanceof Error ? { cause: `${error.cause.name}: ${error.cause.message}` } : {}
  return { error: `${error.name}: ${error.message}`, ...cause }
}
