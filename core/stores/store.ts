import type { Redis, RedisCommander } from 'ioredis'
import type { ScriptRunner } from '../../lua/runner.ts'

/** Short commands, to one server or to the right one of a cluster: never block on it. */
export type RedisClient = RedisCommander

/**
 * One Redis deployment that has gates: a single server (or a managed database that looks like one), or a cluster.
 * A campaign lives in one of them for all its life; each of its buckets lives on one node of it at a time.
 */
export interface Store {
  readonly name: string
  readonly client: RedisClient
  /** Runs scripts where their keys are. */
  readonly runner: ScriptRunner
  /** Whether logs of different buckets can't be read by one command. */
  readonly isCluster: boolean
  /** Who serves this key, as far as is known now. @throws when nobody is known to. */
  nodeOf(key: string): StoreNode
  /** A new connection of one's own to a node, for blocking reads; its owner disconnects it. */
  connectTo(node: StoreNode): Redis
  /** A new connection of one's own, for subscribing: to any node, and to another one when that goes away. */
  connectToAny(): Redis
  close(): void
}

/**
 * A server within a store. What is asked through it is answered by this server or by nobody, so that what was learnt
 * of it (which life it is in) holds for what it then does.
 */
export interface StoreNode {
  /** host:port; of a single server only a name. */
  readonly address: string
  readonly client: RedisClient
  readonly runner: ScriptRunner
}

export interface StoreSpec {
  readonly name: string
  /** One of a single server; several are a cluster's first addresses. */
  readonly urls: readonly string[]
}
