import { arrive } from '../traffic/openLoop.ts'
import type { Crowd } from './crowd.ts'
import { makeRandom } from './random.ts'
import type { World } from './world.ts'

const recent = 2_000

/**
 * Questions for the status of claims at a steady rate, whatever the answers: mostly of those accepted last, as clients
 * ask that can't wait. @returns how many were asked, once each has its answer
 */
export async function storm(world: World, crowd: Crowd, perSecond: number, seconds: number): Promise<number> {
  const random = makeRandom(7)
  let asked = 0
  await arrive(
    Math.round(perSecond * seconds),
    performance.now(),
    (i) => (i * 1000) / perSecond,
    async (_, dueAt) => {
      const { accepted } = crowd
      const from = Math.max(0, accepted.length - recent)
      const acceptance = accepted[from + Math.floor(random() * (accepted.length - from))]
      // Before the first acceptance there is nothing to ask for.
      if (acceptance === undefined) return
      asked++
      await world.watchers.ask(acceptance, dueAt)
    },
  )
  return asked
}
