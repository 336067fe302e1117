import { migrate } from '../schema/db/migrate.ts'
import { reconcileGates } from './campaigns/gates.ts'
import { connect, makeLog } from './connect.ts'
import type { Running } from './deps.ts'
import { ConfigurationError, type CoreEnv, parseEnv } from './env.ts'
import { buildApp } from './http/routes.ts'
import { startHttp } from './http/server.ts'

/**
 * The core's process. It brings the schema up to date, starts its parts and says on stdout where it listens, as one
 * line of JSON. SIGTERM or SIGINT, or the end of the parent where TIDEGATE_PARENT=1, stop it in order.
 */

/** Answers under way may take this long once we stop. */
const graceMs = 5_000
/** Past this a stop has failed: what is not finished will be found by the next process. */
const stopWithinMs = 20_000

async function main(): Promise<void> {
  const env = readEnv()
  const log = makeLog(env)
  const applied = await migrate(env.databaseUrl)
  if (applied.length > 0) log.info({ applied }, 'migrated')
  const { deps, close } = connect(env, log)

  let stopping = false
  const parts: Running[] = []
  const app = buildApp(deps, { isStopping: () => stopping })

  const lagging = await reconcileGates(deps)
  if (lagging > 0) log.warn({ lagging }, 'gates could not be told; the guardian goes on')
  const http = await startHttp(app, env.host, env.port)
  process.stdout.write(`${JSON.stringify({ listening: http.url })}\n`)
  log.info({ url: http.url }, 'listening')

  onStop(env, async (why) => {
    stopping = true
    log.info({ why }, 'stopping')
    setTimeout(() => {
      log.error('stopping takes too long; leaving the rest to the next process')
      process.exit(1)
    }, stopWithinMs).unref()
    // Streams are closed by their part; other answers may need the database until they are out.
    await Promise.all([http.stop(graceMs), ...parts.map((part) => part.stop())])
    await close()
    log.info('stopped')
    process.exit(0)
  })
}

function readEnv(): CoreEnv {
  try {
    return parseEnv(process.env)
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

await main()
