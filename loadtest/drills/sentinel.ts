import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis as Client } from 'ioredis'
import { type Child, startChild } from '../../stack/child.ts'
import { searchPath } from '../../stack/host.ts'
import { freePort } from '../../stack/ports.ts'
import { until } from '../../stack/process.ts'
import { ensureRedis } from '../../stack/redis-install.ts'
import type { Drill } from './drill.ts'
import { type Pair, preparePair } from './failover.ts'

/** A promotion that nobody orders: a real Redis Sentinel sees the primary gone and promotes the replica. */

interface Sentinel extends Child {
  port: number
}

const downAfterMs = 2_000

/** It watches the primary by the way that the replica has to it. */
async function startSentinel(dir: string, home: string, primaryPort: number): Promise<Sentinel> {
  mkdirSync(dir, { recursive: true })
  const port = await freePort()
  const file = join(dir, 'sentinel.conf')
  const lines = [
    ...[`port ${port}`, 'bind 127.0.0.1', `dir ${dir}`, 'protected-mode no'],
    `sentinel monitor tidegate 127.0.0.1 ${primaryPort} 1`,
    `sentinel down-after-milliseconds tidegate ${downAfterMs}`,
    'sentinel failover-timeout tidegate 20000',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  const child = await startChild({
    name: 'sentinel',
    command: await ensureRedis({ home: join(home, 'redis-program') }),
    args: [file, '--sentinel'],
    env: { PATH: searchPath().join(':'), LC_ALL: 'C', TZ: 'UTC' },
    dir,
  })
  return { ...child, port }
}

/** Knows the replica, so that it can promote it. */
async function untilWatching(client: Client): Promise<void> {
  await until(
    async () => {
      const replicas = (await client.call('SENTINEL', 'REPLICAS', 'tidegate').catch(() => [])) as unknown[]
      return replicas.length > 0
    },
    'the sentinel finds no replica',
    15_000,
    100,
  )
}

export const redisSentinelPromotion: Drill = {
  name: 'redis-sentinel-promotion',
  about:
    'Sentinel promotes a replica that lags, while the primary still accepts claims and is then killed: rebuilt, nothing sold twice',
  losesAcceptances: true,
  async prepare(dir) {
    const prepared = await preparePair(dir)
    const { replication } = prepared.tools['pair'] as Pair
    const sentinel = await startSentinel(join(dir, 'sentinel'), join(dir, '..'), replication.port)
    return {
      stack: prepared.stack,
      tools: { ...prepared.tools, sentinel },
      async close() {
        await sentinel.kill()
        await prepared.close()
      },
    }
  },
  async run(world) {
    const { primary, replication, name } = world.tools['pair'] as Pair
    const sentinel = world.tools['sentinel'] as Sentinel
    const client = new Client({ port: sentinel.port, host: '127.0.0.1' })
    const news = new Client({ port: sentinel.port, host: '127.0.0.1' })
    try {
      await untilWatching(client)
      const promoted = new Promise<number>((resolve) => {
        news.on('message', (_, text: string) => resolve(Number(text.split(' ')[4])))
      })
      await news.subscribe('+switch-master')
      await world.open(700, { quota: 650 })
      const flood = world.startFlood()
      await world.untilTold(60)
      world.fault('the replica, and the sentinel, are cut off from the primary', true)
      replication.freeze()
      await world.untilTold(flood.told.length + 60)
      world.fault('core frozen; the primary alone has what comes now', true)
      world.stack.part('core').pause()
      await world.untilTold(flood.told.length + 20)
      await primary.kill()
      world.fault('primary killed', true)
      const killed = performance.now()
      const port = await Promise.race([promoted, late()])
      name.redirect(port)
      world.fault('the replica is the primary', true)
      const promotedMs = Math.round(performance.now() - killed)
      world.stack.part('core').resume()
      await flood.finish()
      return { promoted_ms: promotedMs }
    } finally {
      world.stack.part('core').resume()
      client.disconnect()
      news.disconnect()
    }
  },
}

function late(): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error('the sentinel promoted nobody within 20 s')), 20_000).unref()
  })
}
