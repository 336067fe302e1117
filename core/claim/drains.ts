import { type Drain, type DrainDeps, type DrainOptions, startDrain } from './drain.ts'

/** A drain for each store: when a store is away, the others' claims go on. */
export function startDrains(
  deps: DrainDeps,
  options: Omit<DrainOptions, 'store'> = {},
): Pick<Drain, 'nudge' | 'stop'> {
  const drains = deps.stores.all.map((store) => startDrain(deps, { ...options, store }))
  return {
    nudge() {
      for (const drain of drains) drain.nudge()
    },
    async stop() {
      await Promise.all(drains.map((drain) => drain.stop()))
    },
  }
}
