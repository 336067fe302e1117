import { mkdirSync, readFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { convertV4MiniflareOptions, Log, LogLevel, Miniflare, type V4WorkerOptions } from 'miniflare'
import { type Bundle, bundleWorker, OFFLINE } from './bundle.ts'

/**
 * A process that runs the edge worker in the real runtime (workerd) and prints {"listening": url} when it serves, with
 * the address of each isolate in `isolates`.
 *
 * Environment: WORKER_CONFIG (path of wrangler.toml), WORKER_CACHE (folder for bundles), WORKER_PORT (0 or none:
 * any free one), WORKER_BINDINGS (JSON object of text bindings), WORKER_ISOLATES (1 unless given: so many isolates of
 * one location, each on a port of its own; they share nothing but the location's cache), WORKER_V8_FLAGS (of the runtime's
 * engine; empty: its own defaults; none: short pauses of its collector).
 */

interface WorkerEnvironment {
  config: string
  cache: string
  port: number
  bindings: Record<string, string>
  isolates: number
  v8Flags: string
}

/**
 * For short pauses of the runtime's collector. Each request, also a bare worker's, leaves half a kilobyte that only a
 * collection of the whole heap frees. By default that waits for 35 MB, and then stops the isolate for 150 to 250 ms; on
 * the platform many isolates share a crowd, here one has it all. With this it stops for 20 to 30 ms, and a claim costs
 * 5 to 12 % more.
 */
const SHORT_PAUSES = '--initial-old-space-size=4 --max-semi-space-size=1'

const EDGE = 'edge'
const SITE = 'site'

function parseEnvironment(env: NodeJS.ProcessEnv): WorkerEnvironment {
  const {
    WORKER_CONFIG: config,
    WORKER_CACHE: cache,
    WORKER_PORT: port = '0',
    WORKER_BINDINGS: json = '{}',
    WORKER_ISOLATES: isolates = '1',
    WORKER_V8_FLAGS: v8Flags = SHORT_PAUSES,
  } = env
  if (!config) throw new Error('WORKER_CONFIG is missing: give the path of a wrangler.toml.')
  if (!cache) throw new Error('WORKER_CACHE is missing: give a folder to keep bundles in.')
  if (!/^\d{1,5}$/.test(port)) throw new Error('WORKER_PORT must be a port number, or 0 for any free one.')
  if (!/^[1-8]$/.test(isolates)) throw new Error('WORKER_ISOLATES must be a number from 1 to 8.')
  return {
    config,
    cache,
    port: Number(port),
    bindings: JSON.parse(json),
    isolates: Number(isolates),
    v8Flags,
  }
}

/**
 * The worker and its assets as two services: with both in one, Miniflare puts a proxy in front of the direct
 * socket, which quarters the rate (measured: 3.1 k/s against 12.2 k/s). The worker asks the assets through the
 * same binding either way.
 *
 * Each further isolate is a worker of its own with the same code. In workerd that is an isolate of its own, as another
 * machine's would be: no memory is shared. `caches.default` of all workers of one Miniflare is one cache, as in a
 * location.
 */
function services(bundle: Bundle, environment: WorkerEnvironment): V4WorkerOptions[] {
  const { assets, ...options } = bundle.options as Record<string, unknown> & { assets?: { binding?: string } }
  const own = options['bindings'] as Record<string, string> | undefined
  const edge = (name: string, port: number): V4WorkerOptions => ({
    ...options,
    name,
    modules: [{ type: 'ESModule', path: bundle.script, contents: readFileSync(bundle.script, 'utf8') }],
    modulesRoot: dirname(bundle.script),
    bindings: { ...own, ...environment.bindings },
    unsafeDirectSockets: [{ host: '127.0.0.1', port }],
  })
  const gates = namesOf(environment).map((name, index) => edge(name, index === 0 ? environment.port : 0))
  if (!assets) return gates
  const site = {
    name: SITE,
    compatibilityDate: options['compatibilityDate'],
    modules: true,
    script: 'export default { fetch: (request, env) => env.ASSETS.fetch(request) }',
    assets: { ...assets, binding: 'ASSETS' },
  } as V4WorkerOptions
  const serviceBindings = { [assets.binding ?? 'ASSETS']: SITE }
  return [...gates.map((gate) => ({ ...gate, serviceBindings })), site]
}

/** Of the isolates; the first is the worker as it ever was. */
function namesOf({ isolates }: WorkerEnvironment): string[] {
  return Array.from({ length: isolates }, (_, index) => (index === 0 ? EDGE : `${EDGE}-${index + 1}`))
}

/** Structured logs of the worker, one JSON line each, on standard error: standard output carries our one line. */
function logLine(log: { level: string; message: string; timestamp: number }): void {
  process.stderr.write(`${JSON.stringify({ level: log.level, time: log.timestamp, msg: log.message })}\n`)
}

async function main(): Promise<void> {
  const environment = parseEnvironment(process.env)
  Object.assign(process.env, OFFLINE, { MINIFLARE_WORKERD_V8_FLAGS: environment.v8Flags })
  mkdirSync(environment.cache, { recursive: true })
  const bundle = await bundleWorker(environment.config, environment.cache)
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: '127.0.0.1',
      port: 0,
      cf: false,
      log: new Log(LogLevel.ERROR),
      handleStructuredLogs: logLine,
      logRequests: false,
      telemetry: { enabled: false },
      unsafeLocalExplorer: false,
      workers: services(bundle, environment),
    }),
  )
  // On SIGTERM and SIGINT Miniflare ends workerd, removes its files and exits (143, 130).
  await miniflare.ready
  const urls = await Promise.all(namesOf(environment).map((name) => miniflare.unsafeGetDirectURL(name)))
  const isolates = urls.map(({ origin }) => origin)
  const made = basename(dirname(dirname(bundle.script)))
  console.log(JSON.stringify({ listening: isolates[0], bundle: made, isolates }))
}

await main().catch((error: Error) => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})
