import { Redis } from 'ioredis'
import { restRunner, tcpRunner } from '../../lua/runner.ts'
import { startGateway } from '../../stack/gateway/server.ts'
import { freshCluster } from '../../stack/redis-cluster.ts'
import { freshRedis } from '../../stack/testing.ts'
import { conformance } from './conformance.ts'

conformance('TCP on a single Redis', async () => {
  const server = await freshRedis({ appendfsync: 'off' })
  const redis = new Redis(server.url)
  return {
    runner: tcpRunner(redis),
    redis,
    close: async () => {
      redis.disconnect()
      await server.stop()
    },
  }
})

conformance('REST through the gateway on a single Redis', async () => {
  const server = await freshRedis({ appendfsync: 'off' })
  const redis = new Redis(server.url)
  const token = 'conformance'
  const gateway = await startGateway({ redisUrl: server.url, token, port: 0, strictKeys: true })
  return {
    runner: restRunner({ url: gateway.url, token, timeoutMs: 5000, fetch }),
    redis,
    close: async () => {
      redis.disconnect()
      await gateway.close()
      await server.stop()
    },
  }
})

conformance('TCP on a Redis Cluster of three masters', async () => {
  const cluster = await freshCluster(3)
  const redis = cluster.connect()
  return {
    runner: tcpRunner(redis),
    redis,
    close: async () => {
      redis.disconnect()
      await cluster.stop()
    },
  }
})

conformance('REST through the gateway on a Redis Cluster of three masters', async () => {
  const cluster = await freshCluster(3)
  const redis = cluster.connect()
  const token = 'conformance'
  const redisUrl = cluster.masters.map(({ url }) => url).join(',')
  const gateway = await startGateway({ redisUrl, token, port: 0, strictKeys: true })
  return {
    runner: restRunner({ url: gateway.url, token, timeoutMs: 5000, fetch }),
    redis,
    close: async () => {
      redis.disconnect()
      await gateway.close()
      await cluster.stop()
    },
  }
})
