import { Cluster, Redis, type RedisOptions } from 'ioredis'
import type { Logger } from 'pino'
import { tcpRunner } from '../../lua/runner.ts'
import {
  blockingCommands,
  connectionOptions,
  reconnectDelayMs,
  shortCommands,
  tellOnce,
} from './connection.ts'
import { slotOf } from './slot.ts'
import type { Store, StoreNode } from './store.ts'

/** Who serves which slots is asked this often, and whenever a node says that it doesn't. */
const slotsRefreshMs = 1_000

/** A Redis Cluster, known by some of its nodes' addresses. */
export function openCluster(name: string, urls: readonly string[], log: Logger): Store {
  const seeds = urls.map((url) => new URL(url))
  const access = accessOf(seeds[0]!)
  const addresses = seeds.map(({ hostname, port }) => ({ host: hostname, port: Number(port || 6379) }))
  const client = new Cluster(addresses, {
    redisOptions: { ...connectionOptions(shortCommands), ...access },
    clusterRetryStrategy: reconnectDelayMs,
    slotsRefreshInterval: slotsRefreshMs,
    slotsRefreshTimeout: 2_000,
    // A command whose connection broke may have run: never sent again by the client.
    retryDelayOnFailover: 0,
    // Rather an error than a command that waits, without an end, for a cluster that is away.
    enableOfflineQueue: false,
    // Certificates are for names: an address that was looked up would not match.
    ...(access.tls === undefined ? {} : { dnsLookup: (host, done) => done(null, host) }),
  })
  tellOnce(client as unknown as Redis, log, name)

  /** By address; made anew when the client has made its connection anew. */
  const nodes = new Map<string, StoreNode>()
  function nodeOf(key: string): StoreNode {
    const slot = slotOf(key)
    const address = client.slots[slot]?.[0]
    const connection = client.nodes('master').find(({ options }) => addressOf(options) === address)
    if (address === undefined || connection === undefined)
      throw new Error(`${name}: no node is known to serve slot ${slot}`)
    const known = nodes.get(address)
    if (known?.client === connection) return known
    const node = { address, client: connection, runner: tcpRunner(connection) }
    nodes.set(address, node)
    return node
  }

  function open(address: { host: string; port: number }, retry: (attempt: number) => number | null): Redis {
    const redis = new Redis({
      ...connectionOptions(blockingCommands),
      ...access,
      ...address,
      retryStrategy: retry,
    })
    tellOnce(redis, log, name)
    return redis
  }

  function connectToAny(): Redis {
    const all = client
      .nodes()
      .flatMap(({ options: { host, port } }) => (host && port ? [{ host, port }] : []))
    const known = all.length > 0 ? all : addresses
    const redis = open(known[0]!, (attempt) => {
      // The connector reads its options at each attempt.
      Object.assign(redis.options, known[attempt % known.length])
      return reconnectDelayMs(attempt)
    })
    return redis
  }

  return {
    name,
    client,
    runner: tcpRunner(client),
    isCluster: true,
    nodeOf,
    // Not again: who serves the slots of a node that went away is another node's business.
    connectTo: ({ address }) => open(placeOf(address), () => null),
    connectToAny,
    close: () => client.disconnect(),
  }
}

function addressOf({ host, port }: RedisOptions): string {
  return `${host}:${port}`
}

/** The port is behind the last colon: an IPv6 host has colons too. */
function placeOf(address: string): { host: string; port: number } {
  const colon = address.lastIndexOf(':')
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) }
}

/** The same for all nodes: a cluster has one list of users. */
function accessOf({
  protocol,
  username,
  password,
}: URL): Pick<RedisOptions, 'username' | 'password' | 'tls'> {
  return {
    ...(username === '' ? {} : { username: decodeURIComponent(username) }),
    ...(password === '' ? {} : { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' ? { tls: {} } : {}),
  }
}
