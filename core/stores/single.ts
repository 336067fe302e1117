import { Redis } from 'ioredis'
import type { Logger } from 'pino'
import { tcpRunner } from '../../lua/runner.ts'
import {
  blockingCommands,
  connectionOptions,
  reconnectDelayMs,
  shortCommands,
  tellOnce,
} from './connection.ts'
import type { Store, StoreNode } from './store.ts'

/** One server, or what looks like one. */
export function openSingle(name: string, url: string, log: Logger): Store {
  const open = (patience: typeof shortCommands | typeof blockingCommands) => {
    const redis = new Redis(url, { ...connectionOptions(patience), retryStrategy: reconnectDelayMs })
    tellOnce(redis, log, name)
    return redis
  }
  const client = open(shortCommands)
  const runner = tcpRunner(client)
  const node: StoreNode = { address: name, client, runner }
  return {
    name,
    client,
    runner,
    isCluster: false,
    nodeOf: () => node,
    connectTo: () => open(blockingCommands),
    connectToAny: () => open(blockingCommands),
    close: () => client.disconnect(),
  }
}
