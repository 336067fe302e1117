import type { CommonRedisOptions, Redis } from 'ioredis'
import type { Logger } from 'pino'

/** What all our connections to Redis have in common. */

/** How long a command may be without its reply, in ms. */
type Patience = { commandTimeout: number } | { blockingTimeout: number; blockingTimeoutGrace: number }

export const shortCommands = { commandTimeout: 5_000 }
/** A blocking read that a lost reply left waiting would wait for ever: it ends soon after its own time. */
export const blockingCommands = { blockingTimeout: 30_000, blockingTimeoutGrace: 1_000 }

export const connectTimeoutMs = 5_000

export function connectionOptions<P extends Patience>(patience: P) {
  return {
    connectTimeout: connectTimeoutMs,
    // What was sent when the connection broke may have run: its sender decides, not the client.
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    ...patience,
  } satisfies CommonRedisOptions
}

export const reconnectDelayMs = (attempt: number) => Math.min(50 * 2 ** Math.min(attempt, 6), 2_000)

/** Every failed attempt to connect says the same: once until it works again is enough. */
export function tellOnce(connection: Pick<Redis, 'on'>, log: Logger, store: string): void {
  let told = false
  connection.on('error', (error: Error) => {
    if (!told) log.warn({ err: error, store }, 'Redis is away')
    told = true
  })
  connection.on('ready', () => {
    told = false
  })
}
