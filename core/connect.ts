import { type Logger, pino } from 'pino'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { connectDatabase } from './db.ts'
import type { Deps } from './deps.ts'
import type { CoreEnv } from './env.ts'
import { makeIdentity } from './http/identity.ts'
import { makeKeyrings } from './keyrings.ts'
import { openStores } from './stores/stores.ts'

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
  const stores = openStores(env.stores, log)
  const deps: Deps = {
    env,
    log,
    db,
    stores,
    redis: stores.main.client,
    subscription: () => stores.main.connectToAny(),
    runner: stores.runner,
    keyrings,
    identity: makeIdentity({ login: env.login, edgeCore: keyrings.edgeCore, clock }),
    clock,
    metrics,
  }
  return {
    deps,
    async close() {
      stores.close()
      await db.close()
    },
  }
}
