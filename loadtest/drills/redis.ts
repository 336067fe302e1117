import type { Drill } from './drill.ts'
import type { World } from './world.ts'

/** Losses of Redis (IS10). */

/** People claim while the core is frozen, so that Redis alone has some acceptances; then `lose` happens. */
async function loseUndrained(world: World, lose: () => Promise<void>): Promise<Record<string, number>> {
  await world.open(500, { quota: 480 })
  const flood = world.startFlood()
  await world.untilTold(100)
  const core = world.stack.part('core')
  core.pause()
  await world.untilTold(flood.told.length + 40)
  world.fault('Redis loses everything', true)
  await lose()
  core.resume()
  const reopenedMs = await world.untilLeased()
  await flood.finish()
  return { reopened_ms: reopenedMs }
}

export const redisFlushed: Drill = {
  name: 'redis-flushed',
  about: 'FLUSHALL under load with acceptances not drained: rebuilt and reopened, receipts honoured',
  losesAcceptances: true,
  run: (world) => loseUndrained(world, () => world.withRedis(async (redis) => void (await redis.flushall()))),
}

export const redisRestartedEmpty: Drill = {
  name: 'redis-restarted-empty',
  about: 'Redis without persistence killed and started again: the same',
  losesAcceptances: true,
  stack: { redis: { appendfsync: 'off' } },
  run: (world) =>
    loseUndrained(world, async () => {
      await world.stack.part('redis').kill()
      await world.stack.part('redis').start()
    }),
}

export const redisKilledAndRestarted: Drill = {
  name: 'redis-killed-and-restarted',
  about:
    'Redis with its append-only file killed under load and started again: goes on, what was lost is made good',
  losesAcceptances: true,
  async run(world) {
    await world.open(500, { quota: 400 })
    const flood = world.startFlood()
    await world.untilTold(150)
    world.fault('Redis killed and started again', true)
    await world.stack.part('redis').kill()
    await world.stack.part('redis').start()
    const reopenedMs = await world.untilLeased()
    await flood.finish()
    return { reopened_ms: reopenedMs }
  },
}
