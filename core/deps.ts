import type { Redis } from 'ioredis'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { ScriptRunner } from '../lua/runner.ts'
import type { Database } from './db.ts'
import type { CoreEnv } from './env.ts'
import type { Identity } from './http/identity.ts'
import type { Keyrings } from './keyrings.ts'
import type { RedisClient } from './stores/store.ts'
import type { Stores } from './stores/stores.ts'

/** What the core's parts are handed by the composition root (core/main.ts). */
export interface Deps {
  readonly env: CoreEnv
  readonly log: Logger
  readonly db: Database
  /** Every Redis deployment that has gates. */
  readonly stores: Stores
  /** The main store's, which also carries results to all processes: for short commands, never block on it. */
  readonly redis: RedisClient
  /** A new connection of one's own to the main store, for subscribing; its owner disconnects it. */
  subscription(): Redis
  /** Runs scripts in the store of the campaign whose keys they get. */
  readonly runner: ScriptRunner
  readonly keyrings: Keyrings
  /** Proves who calls. */
  readonly identity: Identity
  /** ms since the epoch. */
  clock(): number
  /** Where parts register what they measure; served at /metrics. */
  readonly metrics: Registry
}

/** A part that runs until it is stopped. `stop` resolves when the work in hand is finished. */
export interface Running {
  stop(): Promise<void>
}
