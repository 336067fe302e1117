import { join } from 'node:path'
import { type FaultProxy, startFaultProxy } from '../../stack/faultProxy.ts'
import { type Redis, startRedis } from '../../stack/redis.ts'
import { ensureRedis } from '../../stack/redis-install.ts'
import type { Prepared } from './scenario.ts'

/** A primary with an asynchronous replica, under one name that can be given to the other. */
export interface RedisPair {
  primary: Redis
  replica: Redis
  name: FaultProxy
}

export async function preparePair(dir: string, home: string): Promise<Prepared> {
  const binary = await ensureRedis({ home: join(home, 'redis-program') })
  const primary = await startRedis({ binary, dir: join(dir, 'primary') })
  const args = ['--replicaof', '127.0.0.1', String(primary.port)]
  const replica = await startRedis({ binary, dir: join(dir, 'replica'), args })
  const name = await startFaultProxy(primary.port)
  const pair: RedisPair = { primary, replica, name }
  return {
    stack: { external: { redisUrl: name.url(primary.url) } },
    tools: { pair },
    async close() {
      await name.close()
      await Promise.all([primary.kill(), replica.kill()])
    },
  }
}
