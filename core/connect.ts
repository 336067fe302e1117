import { Redis } from 'ioredis'
import { type Logger, pino } from 'pino'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { tcpRunner } from '../lua/runner.ts'
import { connectDatabase } from './db.ts'
import type { Deps } from './deps.ts'
import type { CoreEnv } from './env.ts'
import { makeIdentity } from './http/identity.ts'
import { makeKeyrings } from './keyrings.ts'

export interface Connected {
  deps: Deps
  /** Closes the connections; whoever uses them has stopped before. */
  close(): Promise<void>
}

/** Logs go to stderr: stdout is for what a program reads. */
export function makeLog(env: Pick<CoreEnv, 'logLevel'>): Logger {
  return pino({ name: 'core', level: env.logLevel }, pino.destination({ fd: 2, sync: false }))
}

/**
 * Opens what the parts are handed. Nothing is waited for: a Postgres or Redis that is away now is met where it is
 * used, as one that goes away later.
 * @throws ConfigurationError
 */
export function connect(env: CoreEnv, log: Logger = makeLog(env)): Connected {
  const keyrings = makeKeyrings(env.keys)
  const clock = () => Date.now()
  const db = connectDatabase({ url: env.databaseUrl, prepare: env.databasePrepare })
  const metrics = new Registry()
  collectDefaultMetrics({ register: metrics })
  const redis = openRedis(env.redisUrl, log, { commandTimeout: 5_000 })
  const deps: Deps = {
    env,
    log,
    db,
    redis,
    // A blocking read that a lost reply left waiting would wait for ever: it ends soon after its own time.
    blockingRedis: () =>
      openRedis(env.redisUrl, log, { blockingTimeout: 30_000, blockingTimeoutGrace: 1_000 }),
    runner: tcpRunner(redis),
    keyrings,
    identity: makeIdentity({ login: env.login, edgeCore: keyrings.edgeCore, clock }),
    clock,
    metrics,
  }
  return {
    deps,
    async close() {
      redis.disconnect()
      await db.close()
    },
  }
}

/** How long a command may be without its reply, in ms. */
type Patience = { commandTimeout: number } | { blockingTimeout: number; blockingTimeoutGrace: number }

function openRedis(url: string, log: Logger, patience: Patience): Redis {
  const redis = new Redis(url, {
    connectTimeout: 5_000,
    // What was sent when the connection broke may have run: its sender decides, not the client.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    retryStrategy: (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 6), 2_000),
    ...patience,
  })
  let told = false
  redis.on('error', (error) => {
    // Every failed attempt to connect says the same: once until it works again is enough.
    if (!told) log.warn({ err: error }, 'Redis is away')
    told = true
  })
  redis.on('ready', () => {
    told = false
  })
  return redis
}
