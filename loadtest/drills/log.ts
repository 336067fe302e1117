import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import type { Drill } from './drill.ts'

/** The request log misbehaves as a message queue may: twice, late, and not there. */

const lateMs = 2_500

/** Every entry of a log once more, as its own copy. */
async function copyEntries(redis: Redis, key: string): Promise<number> {
  const entries = await redis.xrange(key, '-', '+')
  for (const [, fields] of entries) await redis.xadd(key, '*', ...fields)
  return entries.length
}

export const logTwiceLateGone: Drill = {
  name: 'log-twice-late-gone',
  about:
    'log entries twice, delivered again, late, and one of two partitions without its consumer group: one coupon each (IS1)',
  async run(world) {
    const core = world.stack.part('core')
    await world.open(1_000, { quota: 900, bucketCount: 2 })
    const flood = world.startFlood({ atOnce: 8, everyMs: 100 })
    const logs = [0, 1].map((bucket) => `tg:{${world.campaignId}:${bucket}}:log`)
    await world.untilTold(60)
    core.pause()
    world.fault('core frozen: delivery is late')
    await pause(lateMs)
    await world.untilTold(flood.told.length + 40)
    const copies = await world.withRedis(async (redis) => {
      let made = 0
      for (const key of logs) made += await copyEntries(redis, key)
      for (const key of logs) await redis.xgroup('SETID', key, 'core', '0')
      await redis.xgroup('DESTROY', logs[1]!, 'core')
      return made
    })
    world.fault(`${copies} entries copied, all to be delivered again, the group of one log destroyed`)
    if (copies === 0) world.violations.push('the log was empty: nothing was tried')
    core.resume()
    await world.untilTold(flood.told.length + 60)
    await world.withRedis(async (redis) => void (await redis.xgroup('DESTROY', logs[0]!, 'core')))
    world.fault('the group of the other log destroyed, under load')
    flood.hurry()
    await flood.finish()
    return { copies }
  },
}
