import { parseArgs } from 'node:util'
import { ConfigurationError } from './env.ts'

/**
 * What a core process does (SC8). One process may do all of it; under load each part has processes of its own, so that
 * none takes another's processor, connections or memory:
 *   api       HTTP: statuses, streams, wallet, commands, what the edge asks
 *   drain     accepted claims into the ledger, compensations, reviews, ballots
 *   notify    the outbox, webhooks, pushes
 *   guardian  leases, gates, stock, recovery
 * Any number of processes of each role run side by side. /healthz, /readyz and /metrics are served by all.
 */
export const coreRoles = ['api', 'drain', 'notify', 'guardian'] as const
export type CoreRole = (typeof coreRoles)[number]

/** From `--role NAME`; all of them without it. @throws ConfigurationError */
export function parseRoles(argv: readonly string[]): ReadonlySet<CoreRole> {
  const given = roleArgument(argv)
  if (given === 'all') return new Set(coreRoles)
  const role = coreRoles.find((known) => known === given)
  if (role === undefined)
    throw new ConfigurationError(`--role ${given}: give one of ${coreRoles.join(', ')} or all`)
  return new Set([role])
}

function roleArgument(argv: readonly string[]): string {
  try {
    const options = { role: { type: 'string', default: 'all' } } as const
    return parseArgs({ args: [...argv], options, strict: true }).values.role
  } catch (error) {
    throw new ConfigurationError((error as Error).message)
  }
}
