import { issuing, throughProxy } from './core.ts'
import type { Drill } from './drill.ts'

/** Faults of Postgres and of the way to it. */

export const postgresRestarted: Drill = {
  name: 'postgres-restarted',
  about: 'Postgres killed under load and started again: nothing accepted is lost or doubled',
  async run(world) {
    await world.open(500, { quota: 400 })
    const flood = world.startFlood()
    await world.untilTold(100)
    world.fault('Postgres killed')
    await world.stack.part('postgres').kill()
    await world.untilTold(flood.told.length + 20)
    await world.stack.part('postgres').start()
    await flood.finish()
    return { busy: flood.codes['BUSY'] ?? 0 }
  },
}

export const postgresCommitLost: Drill = {
  name: 'postgres-commit-lost',
  about:
    'COMMIT obeyed and its answer lost, five times, and the way cut and frozen: looked up, never doubled (IS5)',
  run: (world) =>
    throughProxy(world, async (proxy) => {
      await world.open(400, { quota: 300 })
      const flood = world.startFlood()
      for (let lost = 0; lost < 5; lost++) {
        await world.untilTold(20 + 20 * lost)
        await proxy.holdAnswer(issuing.commit, () => undefined, issuing.after)
        world.fault('the answer to a COMMIT lost')
      }
      proxy.cut()
      world.fault('the way to Postgres cut')
      await world.untilTold(flood.told.length + 20)
      proxy.halfOpen()
      world.fault('the way to Postgres half open')
      await world.untilTold(flood.told.length + 20)
      proxy.release()
      proxy.cut()
      await flood.finish()
      return { answers_lost: 5 }
    }),
}

export const postgresDiskFull: Drill = {
  name: 'postgres-disk-full',
  about:
    'Postgres refuses every write as with a full disk for some seconds: claims wait, and are delivered afterwards',
  async run(world) {
    await world.open(400, { quota: 300 })
    const flood = world.startFlood()
    await world.untilTold(60)
    await world.sql`
      CREATE FUNCTION refuse_writes() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`
    await world.sql`CREATE TRIGGER full_disk BEFORE INSERT ON outbox EXECUTE FUNCTION refuse_writes()`
    world.fault('every write refused as with a full disk')
    await world.untilTold(flood.told.length + 60)
    const settled = (await world.settledIds()).size
    if (settled >= flood.told.length) world.violations.push('the disk was not full')
    await world.sql`DROP TRIGGER full_disk ON outbox`
    await flood.finish()
    return { waited: flood.told.length - settled }
  },
}
