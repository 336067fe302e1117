import { snapshot } from '../../lua/stock.ts'
import { limits } from '../../schema/limits.ts'
import type { Deps } from '../deps.ts'
import { problemResponse } from './problems.ts'
import type { CoreApp } from './types.ts'

const checkTimeoutMs = 1_500
/** Of a cluster's slots so many are tried, which lie on different nodes by chance. */
const clusterLooks = 8

type Check = 'ok' | 'failed'

/**
 * /healthz: the process lives. /readyz: Postgres, Redis and a script answer, and we are not stopping.
 * /metrics: Prometheus text.
 */
export function registerHealthRoutes(app: CoreApp, deps: Deps, isStopping: () => boolean): void {
  let running: Promise<Record<string, Check>> | undefined

  app.get('/healthz', (c) => c.json({ status: 'ok' }, 200, { 'Cache-Control': 'no-store' }))

  app.get('/readyz', async (c) => {
    if (isStopping())
      return problemResponse(c, 'UNAVAILABLE', { detail: 'This process is stopping. Ask another one.' })
    // Whoever asks while checks run shares their result: probing can't become load.
    running ??= runChecks(deps).finally(() => {
      running = undefined
    })
    const checks = await running
    if (Object.values(checks).every((check) => check === 'ok'))
      return c.json({ status: 'ready', checks }, 200, { 'Cache-Control': 'no-store' })
    return problemResponse(c, 'UNAVAILABLE', { checks, retry_after_ms: limits.retryAfterMs })
  })

  app.get('/metrics', async (c) =>
    c.body(await deps.metrics.metrics(), 200, {
      'Content-Type': deps.metrics.contentType,
      'Cache-Control': 'no-store',
    }),
  )
}

async function runChecks({ db, stores, log }: Deps): Promise<Record<string, Check>> {
  const { client, runner, isCluster } = stores.main
  // A cluster of which some answer is ready: a node that is away must not take every process out of service.
  const some = <T>(ask: (i: number) => Promise<T>) =>
    Promise.any(Array.from({ length: isCluster ? clusterLooks : 1 }, (_, i) => ask(i)))
  const checks = {
    postgres: () => db.query.sql`SELECT 1`,
    redis: () => some(() => client.ping()),
    // Buckets that no campaign has: the script runs and finds no gate.
    script: () => some((bucket) => snapshot(runner, { campaignId: 'readyz', bucket })),
  }
  const entries = Object.entries(checks).map(async ([name, check]): Promise<[string, Check]> => {
    try {
      await withTimeout(Promise.resolve(check()), name)
      return [name, 'ok']
    } catch (error) {
      log.warn({ err: error, check: name }, 'not ready')
      return [name, 'failed']
    }
  })
  return Object.fromEntries(await Promise.all(entries))
}

async function withTimeout<T>(work: Promise<T>, what: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: no answer in ${checkTimeoutMs} ms`)), checkTimeoutMs)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
