/**
 * Starts work at a steady rate, whatever becomes of what was started before: an arrival is due at its own time, and
 * its latency counts from then, so that a slow server can't hide behind a generator that waits for it.
 * @param start gets the index and the instant when it was due (performance.now() scale).
 * @returns when every start was made and its promise settled.
 */
export async function openLoop(
  count: number,
  perSecond: number,
  start: (index: number, dueAt: number) => Promise<void>,
): Promise<void> {
  const began = performance.now()
  const running: Promise<void>[] = []
  let next = 0
  while (next < count) {
    const now = performance.now()
    while (next < count && began + (next * 1000) / perSecond <= now) {
      running.push(start(next, began + (next * 1000) / perSecond))
      next++
    }
    // Sockets must be read between the starts: a timer of 1 ms, not a busy loop.
    if (next < count) await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(running)
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
