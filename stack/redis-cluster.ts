import { Cluster, Redis } from 'ioredis'
import { freePort } from './ports.ts'
import { type FreshRedis, freshRedis } from './testing.ts'

/** A Redis Cluster of its own on this machine, for tests and scale-out runs. */
export interface FreshCluster {
  masters: FreshRedis[]
  /** Replica i follows master i mod masters. */
  replicas: FreshRedis[]
  /** Addresses to give to a cluster client. */
  nodes: { host: string; port: number }[]
  connect(): Cluster
  stop(): Promise<void>
}

const slotCount = 16_384

/** Starts so many masters with the slots split evenly, and so many replicas; ready when every node says so. */
export async function freshCluster(masterCount = 3, replicaCount = 0): Promise<FreshCluster> {
  const servers = await Promise.all(
    Array.from({ length: masterCount + replicaCount }, async () =>
      freshRedis({
        args: [
          ...['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())],
          ...['--cluster-node-timeout', '2000', '--cluster-replica-validity-factor', '0'],
          // A node that is away takes its own slots with it, not everybody's.
          ...['--cluster-require-full-coverage', 'no'],
        ],
      }),
    ),
  )
  const clients = servers.map((server) => new Redis(server.url))
  try {
    const masters = servers.slice(0, masterCount)
    await Promise.all(
      masters.map((_, i) => {
        const from = Math.floor((slotCount * i) / masterCount)
        const to = Math.floor((slotCount * (i + 1)) / masterCount) - 1
        return clients[i]!.call('CLUSTER', 'ADDSLOTSRANGE', from, to)
      }),
    )
    const ids = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'MYID')))) as string[]
    for (const [i, server] of servers.entries()) {
      // Without its bus port, a node is looked for at port + 10,000.
      if (i > 0)
        await clients[0]!.call('CLUSTER', 'MEET', '127.0.0.1', server.port, await busPort(clients[i]!))
    }
    await until(async () => {
      const infos = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')))) as string[]
      return infos.every((info) => info.includes(`cluster_known_nodes:${servers.length}`))
    })
    for (let i = 0; i < replicaCount; i++) {
      await until(async () => {
        const reply = clients[masterCount + i]!.call('CLUSTER', 'REPLICATE', ids[i % masterCount]!)
        return reply.then(
          () => true,
          () => false,
        )
      })
    }
    await until(async () => {
      const infos = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')))) as string[]
      return infos.every((info) => info.includes('cluster_state:ok'))
    })
    const nodes = servers.map(({ port }) => ({ host: '127.0.0.1', port }))
    return {
      masters,
      replicas: servers.slice(masterCount),
      nodes,
      connect: () => new Cluster(nodes, { redisOptions: { maxRetriesPerRequest: 3 } }),
      stop: async () => {
        await Promise.all(servers.map((server) => server.stop()))
      },
    }
  } finally {
    for (const client of clients) client.disconnect()
  }
}

async function busPort(client: Redis): Promise<string> {
  const [, port] = (await client.config('GET', 'cluster-port')) as string[]
  return port!
}

async function until(holds: () => Promise<boolean>, deadlineMs = 20_000): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!(await holds())) {
    if (Date.now() > end) throw new Error('the Redis Cluster did not form in time')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
