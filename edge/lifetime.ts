import { Away } from './away.ts'

/** What a handler needs of its request's execution context. */
export interface Lifetime {
  /** Keeps the request's work alive after its answer, and after its client has left. */
  waitUntil(work: Promise<unknown>): void
}

/**
 * Waits for work that may belong to another request of the isolate. The timer is the caller's own: the runtime
 * ends a request that has nothing of its own pending, and the other request may die without settling anything.
 * @throws Away, naming `what`, when it is late.
 */
export async function within<T>(work: Promise<T>, ms: number, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Away(what)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
