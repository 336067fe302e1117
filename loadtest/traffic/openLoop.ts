/**
 * Starts work at instants that were planned before, whatever becomes of what was started earlier: an arrival is due at
 * its own time, and its latency counts from then, so that a slow server can't hide behind a generator that waits for it.
 * @param dueMs of an index, ms from `beganAt`; never less than that of the index before.
 * @param start gets the index and the instant when it was due (performance.now() scale).
 * @returns when every start was made and its promise settled.
 */
export async function arrive(
  count: number,
  beganAt: number,
  dueMs: (index: number) => number,
  start: (index: number, dueAt: number) => Promise<void>,
): Promise<void> {
  const running: Promise<void>[] = []
  let next = 0
  while (next < count) {
    const now = performance.now()
    for (let dueAt = beganAt + dueMs(next); dueAt <= now; dueAt = beganAt + dueMs(next)) {
      running.push(start(next, dueAt))
      next++
      if (next === count) break
    }
    // Sockets must be read between the starts: a timer of 1 ms, not a busy loop.
    if (next < count) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(running)
}

/** Arrivals at a steady rate. */
export function openLoop(
  count: number,
  perSecond: number,
  start: (index: number, dueAt: number) => Promise<void>,
): Promise<void> {
  return arrive(count, performance.now(), (index) => (index * 1000) / perSecond, start)
}

/** Works on all items with at most so many at a time. */
export async function closedLoop(
  count: number,
  concurrency: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: Math.min(concurrency, count) }, async () => {
      while (next < count) await work(next++)
    }),
  )
}
