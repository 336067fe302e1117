import { join } from 'node:path'
import { Redis as Client } from 'ioredis'
import { type FaultProxy, startFaultProxy } from '../../stack/faultProxy.ts'
import { until } from '../../stack/process.ts'
import { type Redis, startRedis } from '../../stack/redis.ts'
import { ensureRedis } from '../../stack/redis-install.ts'
import type { Drill, Prepared } from './drill.ts'

export interface Pair {
  primary: Redis
  replica: Redis
  /** Between the replica and its primary. */
  replication: FaultProxy
  /** Under which everyone knows Redis. */
  name: FaultProxy
}

export async function startPair(dir: string, home: string): Promise<Pair> {
  const binary = await ensureRedis({ home: join(home, 'redis-program') })
  const primary = await startRedis({ binary, dir: join(dir, 'primary') })
  const replication = await startFaultProxy(primary.port)
  const args = ['--replicaof', '127.0.0.1', String(replication.port)]
  const replica = await startRedis({ binary, dir: join(dir, 'replica'), args })
  return { primary, replica, replication, name: await startFaultProxy(primary.port) }
}

export async function preparePair(dir: string): Promise<Prepared> {
  const pair = await startPair(dir, join(dir, '..'))
  return {
    stack: { external: { redisUrl: pair.name.url(pair.primary.url) } },
    tools: { pair },
    async close() {
      await Promise.all([pair.name.close(), pair.replication.close()])
      await Promise.all([pair.primary.kill(), pair.replica.kill()])
    },
  }
}

export const redisFailoverStaleReplica: Drill = {
  name: 'redis-failover-stale-replica',
  about:
    'a replica that lacks the last moments is promoted: what it forgot is rebuilt, nothing is sold twice (case-H18)',
  losesAcceptances: true,
  prepare: preparePair,
  async run(world) {
    const { primary, replica, replication, name } = world.tools['pair'] as Pair
    await world.open(500, { quota: 480 })
    const flood = world.startFlood()
    await world.untilTold(60)
    const stale = new Client(replica.url)
    try {
      await until(
        async () => /master_link_status:up/.test(await stale.info('replication')),
        'no replica',
        10_000,
      )
      replication.freeze()
      // Some of these are drained and forgotten by the replica, the last are in nobody's hands but the primary's.
      await world.untilTold(flood.told.length + 60)
      world.stack.part('core').pause()
      await world.untilTold(flood.told.length + 30)
      world.fault('primary killed, its lagging replica promoted', true)
      await primary.kill()
      await stale.call('REPLICAOF', 'NO', 'ONE')
      name.redirect(replica.port)
      world.stack.part('core').resume()
    } finally {
      stale.disconnect()
    }
    await flood.finish()
    return {}
  },
}
