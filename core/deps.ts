import type { Redis } from 'ioredis'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { ScriptRunner } from '../lua/runner.ts'
import type { Database } from './db.ts'
import type { CoreEnv } from './env.ts'
import type { Identity } from './http/identity.ts'
import type { Keyrings } from './keyrings.ts'

/** What the core's parts are handed by the composition root (core/main.ts). */
export interface Deps {
  readonly env: CoreEnv
  readonly log: Logger
  readonly db: Database
  /** For ordinary commands: never block on it. */
  readonly redis: Redis
  /** A new connection of one's own, for blocking reads and subscriptions; its owner disconnects it. */
  blockingRedis(): Redis
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
