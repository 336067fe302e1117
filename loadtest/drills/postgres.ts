import type { Drill } from './drill.ts'

/** Faults of Postgres and of the way to it. */

export const postgresRestarted: Drill = {
  name: 'postgres-restarted',
  about: 'Postgres killed under load and started again: nothing accepted is lost or doubled',
  async run(world) {
    await world.open(500, { quota: 400 })
    const flood = world.startFlood()
    await world.untilTold(100)
    await world.stack.part('postgres').kill()
    await world.untilTold(flood.told.length + 20)
    await world.stack.part('postgres').start()
    await flood.finish()
    return { busy: flood.codes['BUSY'] ?? 0 }
  },
}
