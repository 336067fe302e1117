import type { Crowd } from './crowd.ts'
import { makeRandom } from './random.ts'
import type { World } from './world.ts'

const recent = 2_000

/**
 * Questions for the status of claims at a steady rate, whatever the answers: mostly of those accepted last, as clients
 * ask that can't wait. @returns how many were asked, once `signal` has ended it and each has its answer
 */
export async function storm(
  world: World,
  crowd: Crowd,
  perSecond: number,
  signal: AbortSignal,
): Promise<number> {
  const random = makeRandom(7)
  const running = new Set<Promise<unknown>>()
  const began = performance.now()
  let asked = 0
  while (!signal.aborted) {
    for (let dueAt = began + (asked * 1000) / perSecond; dueAt <= performance.now(); ) {
      const { accepted } = crowd
      // Before the first acceptance there is nothing to ask for.
      const from = Math.max(0, accepted.length - recent)
      const acceptance = accepted[from + Math.floor(random() * (accepted.length - from))]
      asked++
      if (acceptance !== undefined) {
        const question = world.watchers.ask(acceptance, dueAt)
        running.add(question)
        void question.finally(() => running.delete(question))
      }
      dueAt = began + (asked * 1000) / perSecond
    }
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await Promise.all(running)
  return asked
}
