import { setTimeout as pause } from 'node:timers/promises'
import { untilLeased } from '../ledgerLooks.ts'
import { titles } from '../names.ts'
import { judgeOutage, noteOutage, outageCrowd } from '../outage.ts'
import type { Scenario } from '../scenario.ts'

const awayMs = 2_000
const leaseWithinMs = 40_000

export const redisColdStart: Scenario = {
  name: 'redis-cold-start',
  title: titles['redis-cold-start'],
  about:
    'Redis, without any persistence, is killed in the middle of a run and comes back with nothing. Watched: that ' +
    'nobody is accepted meanwhile, that no outcome stays unknown, that it comes back by itself, and when.',
  share: 0.25,
  losesAcceptances: true,
  stack: { redis: { appendfsync: 'off' } },
  async run(world, load) {
    const crowd = await outageCrowd(world, load)
    const redis = world.stack.part('redis')
    const outage = async () => {
      await pause(load.seconds * 300)
      world.cpu.note('redis')
      await redis.kill()
      const goneAtMs = Date.now()
      world.mark('Redis killed')
      await pause(awayMs)
      await redis.start()
      world.cpu.follow('redis', redis.pid)
      const backAtMs = Date.now()
      world.mark('Redis started, empty')
      await untilLeased(world.redis, world.campaigns, leaseWithinMs)
      world.mark('leases again')
      return { goneAtMs, backAtMs }
    }
    const [found] = await Promise.all([outage(), world.flood(crowd)])
    noteOutage(world, crowd, found)
  },
  judge: (measured) => judgeOutage(measured, 10_000),
}
