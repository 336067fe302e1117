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

/** What a node of a cluster is started with. The port of its bus is for the other nodes. */
export async function nodeArguments(busPort?: number): Promise<string[]> {
  return [
    ...['--cluster-enabled', 'yes', '--cluster-port', String(busPort ?? (await freePort()))],
    ...['--cluster-node-timeout', '2000', '--cluster-replica-validity-factor', '0'],
    // A node that is away takes its own slots with it, not everybody's.
    ...['--cluster-require-full-coverage', 'no'],
  ]
}

/** Starts so many masters with the slots split evenly, and so many replicas; ready when every node says so. */
export async function freshCluster(masterCount = 3, replicaCount = 0): Promise<FreshCluster> {
  const servers = await Promise.all(
    Array.from({ length: masterCount + replicaCount }, async () =>
      freshRedis({ args: await nodeArguments() }),
    ),
  )
  await formCluster(servers, masterCount)
  const nodes = servers.map(({ port }) => ({ host: '127.0.0.1', port }))
  return {
    masters: servers.slice(0, masterCount),
    replicas: servers.slice(masterCount),
    nodes,
    connect: () => new Cluster(nodes, { redisOptions: { maxRetriesPerRequest: 3 } }),
    stop: async () => {
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

/** Makes empty nodes one cluster: the first so many are masters, replica i follows master i mod masters. */
export async function formCluster(servers: readonly { url: string }[], masterCount: number): Promise<void> {
  const clients = servers.map((server) => new Redis(server.url))
  try {
    await Promise.all(
      clients.slice(0, masterCount).map((client, i) => {
        const from = Math.floor((slotCount * i) / masterCount)
        const to = Math.floor((slotCount * (i + 1)) / masterCount) - 1
        return client.call('CLUSTER', 'ADDSLOTSRANGE', from, to)
      }),
    )
    const ids = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'MYID')))) as string[]
    for (const [i, { url }] of servers.entries()) {
      // Without its bus port, a node is looked for at port + 10,000.
      if (i > 0)
        await clients[0]!.call('CLUSTER', 'MEET', '127.0.0.1', new URL(url).port, await busPort(clients[i]!))
    }
    const everyNode = (word: string) => async () => {
      const infos = (await Promise.all(clients.map((client) => client.call('CLUSTER', 'INFO')))) as string[]
      return infos.every((info) => info.includes(word))
    }
    await until(everyNode(`cluster_known_nodes:${servers.length}`))
    for (let i = masterCount; i < servers.length; i++) {
      await until(async () => {
        const reply = clients[i]!.call('CLUSTER', 'REPLICATE', ids[(i - masterCount) % masterCount]!)
        return reply.then(
          () => true,
          () => false,
        )
      })
    }
    await until(everyNode('cluster_state:ok'))
    await until(async () => {
      const infos = await Promise.all(clients.slice(masterCount).map((client) => client.info('replication')))
      return infos.every((info) => info.includes('master_link_status:up'))
    })
  } finally {
    for (const client of clients) client.disconnect()
  }
}

async function busPort(client: Redis): Promise<string> {
  const [, port] = (await client.config('GET', 'cluster-port')) as string[]
  return port!
}

async function until(holds: () => Promise<boolean>, deadlineMs = 60_000): Promise<void> {
  const end = Date.now() + deadlineMs
  while (!(await holds())) {
    if (Date.now() > end) throw new Error('the Redis Cluster did not form in time')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
