import { setTimeout as pause } from 'node:timers/promises'
import { until } from '../../stack/process.ts'
import type { Drill } from './drill.ts'
import type { World } from './world.ts'

/** A slow disk under both stores, and a Redis that has no memory left. */

/** Postgres waits so long before it writes its log for a commit: the most that it allows. */
const commitDelayUs = 100_000
const slowFlushUs = 300_000
/** Longer than a claim waits. */
const stallUs = 3_500_000

const setFlush = (world: World, us: number) =>
  world.withRedis(async (redis) => void (await redis.call('DEBUG', 'AOF-FLUSH-SLEEP', us)))

async function setCommitDelay(world: World, us: number): Promise<void> {
  await world.sql.unsafe(`ALTER SYSTEM SET commit_delay = ${us}`)
  await world.sql.unsafe('ALTER SYSTEM SET commit_siblings = 0')
  await world.sql`SELECT pg_reload_conf()`
}

/**
 * Both programs have a switch that makes them wait where a slow disk would: Redis in its one thread before each write
 * of its append-only file (here synced at each), Postgres before it flushes its log for a commit.
 */
export const slowDisk: Drill = {
  name: 'slow-disk',
  about:
    'each write of Redis’ file takes 300 ms, each commit of Postgres 100 ms; then one write takes 3.5 s: slower, nothing lost',
  stack: { redis: { appendfsync: 'always', args: ['--enable-debug-command', 'local'] } },
  async run(world) {
    await world.open(500, { quota: 400 })
    const flood = world.startFlood()
    await world.untilTold(60)
    await setCommitDelay(world, commitDelayUs)
    await setFlush(world, slowFlushUs)
    world.fault('Redis writes in 300 ms, Postgres commits in 100 ms')
    const began = performance.now()
    await world.untilTold(flood.told.length + 60)
    const slowMs = Math.round(performance.now() - began)
    if (slowMs < 600) world.violations.push(`60 claims took ${slowMs} ms: the disk was not slow`)
    await setFlush(world, stallUs)
    world.fault('Redis writes in 3.5 s')
    await pause(1_000)
    await setFlush(world, 0)
    await setCommitDelay(world, 0)
    world.fault('both as before')
    await flood.finish()
    return { slow_60_ms: slowMs, unknown: flood.codes['OUTCOME_UNKNOWN'] ?? 0 }
  },
}

/** Redis refuses for so long. */
const fullMs = 3_000

export const redisMemoryLimit: Drill = {
  name: 'redis-memory-limit',
  about:
    'Redis at its maxmemory refuses every write: claims hear BUSY, nothing is evicted or lost, and it goes on once raised',
  async run(world) {
    await world.open(500, { quota: 400 })
    const flood = world.startFlood()
    await world.untilTold(100)
    await world.withRedis(async (redis) => {
      const used = Number(/used_memory:(\d+)/.exec(await redis.info('memory'))![1])
      // Memory comes and goes with connections: what they give back must not make room.
      const most = Math.floor(used * 0.9)
      world.fault(`maxmemory ${most}, in use ${used}`)
      await redis.config('SET', 'maxmemory', most)
      const refused = flood.codes['BUSY'] ?? 0
      await until(() => (flood.codes['BUSY'] ?? 0) > refused + 20, 'nobody hears BUSY', 15_000)
      const at = flood.told.length
      await pause(fullMs)
      const late = flood.told.length - at
      if (late > 0) world.violations.push(`${late} claims were accepted: the memory was not full`)
      await redis.config('SET', 'maxmemory', 0)
      world.fault('no maxmemory')
      const evicted = Number(/evicted_keys:(\d+)/.exec(await redis.info('stats'))![1])
      if (evicted > 0) world.violations.push(`Redis threw ${evicted} keys away`)
    })
    await flood.finish()
    return { busy: flood.codes['BUSY'] ?? 0, unknown: flood.codes['OUTCOME_UNKNOWN'] ?? 0 }
  },
}
