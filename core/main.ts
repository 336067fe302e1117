import { migrate } from '../schema/db/migrate.ts'
import { startDays } from './archive/days.ts'
import { startBallotKeeper } from './ballot/keeper.ts'
import { startCompensator } from './claim/compensate.ts'
import { startDrains } from './claim/drains.ts'
import { registerClaimRoutes } from './claim/routes.ts'
import { connect, makeLog } from './connect.ts'
import type { Deps, Running } from './deps.ts'
import { registerDirectRoutes } from './direct/routes.ts'
import { ConfigurationError, type CoreEnv, parseEnv } from './env.ts'
import { type Guardian, startGuardian } from './guardian/guardian.ts'
import { buildApp, buildHealthApp } from './http/routes.ts'
import { startHttp } from './http/server.ts'
import { startHub } from './notify/hub.ts'
import { startPublisher } from './notify/publisher.ts'
import { type Streams, startStreams } from './notify/streams.ts'
import { startPushes } from './push/deliver.ts'
import { makeRecovery } from './recovery/recover.ts'
import { registerRecoveryRoutes } from './recovery/routes.ts'
import { Refused } from './refusal.ts'
import { registerDeadLetterRoutes } from './review/deadLetterRoutes.ts'
import { startReviewKeeper } from './review/keeper.ts'
import { registerReviewRoutes } from './review/routes.ts'
import { type CoreRole, parseRoles } from './role.ts'
import { startStockKeeper } from './stock/keeper.ts'
import { survivedTypeLookup } from './typeLookup.ts'
import { startWebhooks } from './webhooks/deliver.ts'

/**
 * The core's process. It brings the schema up to date, starts its parts and says on stdout where it listens, as one
 * line of JSON. SIGTERM or SIGINT, or the end of the parent where TIDEGATE_PARENT=1, stop it in order.
 */

/** Answers under way may take this long once we stop. */
const graceMs = 5_000
/** Past this a stop has failed: what is not finished will be found by the next process. */
const stopWithinMs = 20_000

async function main(): Promise<void> {
  const env = orExplain(() => parseEnv(process.env))
  const roles = orExplain(() => parseRoles(process.argv.slice(2)))
  const log = makeLog(env)
  const { deps, close } = orExplain(() => connect(env, log))
  process.on('unhandledRejection', (error) => {
    if (!survivedTypeLookup(error, deps.db, log)) throw error
  })
  const applied = await migrate(env.databaseUrl)
  if (applied.length > 0) log.info({ applied }, 'migrated')

  let stopping = false
  const isStopping = () => stopping
  const parts = startParts(deps, roles)
  const app =
    parts.streams === undefined
      ? buildHealthApp(deps, isStopping)
      : buildApp(deps, {
          isStopping,
          onOpened: parts.onOpened,
          onDrawn: parts.onDrawn,
          also(app) {
            registerClaimRoutes(app, deps, parts.streams!)
            registerRecoveryRoutes(app, deps, parts.guardian)
            registerDirectRoutes(app, deps, parts.onDecided)
            registerReviewRoutes(app, deps, parts.onDecided)
            registerDeadLetterRoutes(app, deps, parts.onDecided)
          },
        })
  const http = await startHttp(app, env.host, env.port)
  process.stdout.write(`${JSON.stringify({ listening: http.url })}\n`)
  log.info({ url: http.url }, 'listening')

  onStop(env, async (why) => {
    stopping = true
    log.info({ why }, 'stopping')
    setTimeout(() => {
      log.error('stopping takes too long; the rest is left to the next process')
      process.exit(1)
    }, stopWithinMs).unref()
    await Promise.all([http.stop(graceMs), ...parts.first.map((part) => part.stop())])
    await Promise.all(parts.last.map((part) => part.stop()))
    await close()
    log.info('stopped')
    process.exit(0)
  })
}

interface Parts {
  /** Where HTTP is served to more than probes. */
  streams: Streams | undefined
  /** Of this process, or one that says that it is in others. */
  guardian: Pick<Guardian, 'view'>
  onOpened(): void
  onDrawn(): void
  onDecided(): void
  /** Stopped first: what takes new work. */
  first: Running[]
  /** Stopped last: what finishes the work that the first ones left. */
  last: Running[]
}

function startParts(deps: Deps, roles: ReadonlySet<CoreRole>): Parts {
  const inRole = <P>(role: CoreRole, start: () => P): P | undefined => (roles.has(role) ? start() : undefined)
  const hub = inRole('api', () => startHub(deps))
  const streams = hub && startStreams(deps, hub)
  const publisher = inRole('notify', () => startPublisher(deps))
  const compensator = inRole('drain', () => startCompensator(deps))
  const onDecided = () => {
    publisher?.wake()
    compensator?.wake()
  }
  const drain = inRole('drain', () =>
    startDrains(deps, {
      onCommitted({ rejected }) {
        publisher?.wake()
        if (rejected > 0) compensator?.wake()
      },
    }),
  )
  const reviews = inRole('drain', () => startReviewKeeper(deps, onDecided))
  const ballots = inRole('drain', () => startBallotKeeper(deps, () => publisher?.wake()))
  const guardian = inRole('guardian', () => startGuardian(deps, { recover: makeRecovery(deps) }))
  const days = inRole('guardian', () => startDays(deps))
  const keeper = inRole('guardian', () => startStockKeeper(deps))
  const webhooks = inRole('notify', () => startWebhooks(deps))
  const pushes = inRole('notify', () => startPushes(deps))
  return {
    streams,
    guardian: guardian ?? guardianElsewhere,
    onOpened() {
      drain?.nudge()
      guardian?.nudge()
      keeper?.nudge()
    },
    onDrawn: () => ballots?.wake(),
    onDecided,
    first: present([streams, drain, guardian, keeper, days, ballots, reviews, webhooks, pushes]),
    last: present([publisher, compensator, hub]),
  }
}

const guardianElsewhere: Pick<Guardian, 'view'> = {
  view() {
    throw new Refused('NOT_FOUND', {
      detail: 'Leases are given by other processes (--role guardian): see their metrics.',
    })
  },
}

const present = (parts: (Running | undefined)[]) => parts.filter((part) => part !== undefined)

/** A wrong configuration is told to whoever wrote it, with the exit code that sysexits.h has for it. */
function orExplain<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    process.stderr.write(`The core can't start:\n${error.message}\n`)
    process.exit(78)
  }
}

/** Calls `stop` once, at the first reason to. A second signal ends the process at once. */
function onStop(env: CoreEnv, stop: (why: string) => Promise<void>): void {
  let asked = false
  const ask = (why: string) => {
    if (asked) return
    asked = true
    stop(why).catch((error: unknown) => {
      process.stderr.write(`stopping failed: ${error instanceof Error ? error.stack : String(error)}\n`)
      process.exit(1)
    })
  }
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    process.on(signal, () => (asked ? process.exit(1) : ask(signal)))
  if (env.endWithParent) {
    process.stdin.on('end', () => ask('parent ended')).on('error', () => ask('parent ended'))
    process.stdin.resume()
  }
}

await main().catch((error: unknown) => {
  process.stderr.write(`The core could not start: ${error instanceof Error ? error.stack : String(error)}\n`)
  process.exit(1)
})
