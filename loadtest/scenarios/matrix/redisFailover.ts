import { setTimeout as pause } from 'node:timers/promises'
import { Redis as Client } from 'ioredis'
import { until } from '../../../stack/process.ts'
import { untilLeased } from '../ledgerLooks.ts'
import { titles } from '../names.ts'
import { judgeOutage, noteOutage, outageCrowd } from '../outage.ts'
import { preparePair, type RedisPair } from '../redisPair.ts'
import type { Scenario } from '../scenario.ts'

/** Until somebody has noticed and promoted the replica: what Sentinel's `down-after-milliseconds` would be. */
const detectMs = 2_000
const leaseWithinMs = 40_000

export const redisFailover: Scenario = {
  name: 'redis-failover',
  title: titles['redis-failover'],
  about:
    'The primary is killed in the middle of a run, and two seconds later its asynchronous replica is promoted under ' +
    'the same name. Watched: the same as with a cold start.',
  share: 0.25,
  losesAcceptances: true,
  prepare: preparePair,
  async run(world, load) {
    const { primary, replica, name } = world.tools['pair'] as RedisPair
    const crowd = await outageCrowd(world, load)
    world.cpu.follow('redis', primary.pid)
    world.cpu.follow('redis replica', replica.pid)
    const other = new Client(replica.url)
    const outage = async () => {
      await until(
        async () => /master_link_status:up/.test(await other.info('replication')),
        'no replica',
        10_000,
      )
      await pause(load.seconds * 300)
      world.cpu.note('redis')
      await primary.kill()
      const goneAtMs = Date.now()
      world.mark('primary killed')
      await pause(detectMs)
      await other.call('REPLICAOF', 'NO', 'ONE')
      name.redirect(replica.port)
      const backAtMs = Date.now()
      world.mark('replica promoted')
      await untilLeased(world.redis, world.campaigns, leaseWithinMs)
      world.mark('leases again')
      return { goneAtMs, backAtMs }
    }
    try {
      const [found] = await Promise.all([outage(), world.flood(crowd)])
      noteOutage(world, crowd, found)
    } finally {
      other.disconnect()
    }
  },
  judge: (measured) => judgeOutage(measured, 10_000),
}
