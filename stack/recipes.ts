import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import postgres from 'postgres'
import { type Issuer, LOGIN_AUDIENCE, LOGIN_ISSUER } from './issuer.ts'
import type { StackKeys } from './keys.ts'
import type { Part, Started } from './part.ts'
import { choosePort } from './ports.ts'
import { startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'
import { ensureRedis } from './redis-install.ts'
import { runCommand } from './run-command.ts'
import type { Scaled } from './scaleOut.ts'
import { startService } from './service.ts'
import type { Endpoints, PartName, StackOptions } from './stack.ts'

/** What is handed from step to step while a stack starts. */
export interface Building {
  options: StackOptions
  dir: string
  home: string
  keys: StackKeys
  issuer: Issuer
  endpoints: Endpoints
  parts: Partial<Record<PartName, Part>>
  scaled: Scaled
}

/** Starts a part: on `port` when it comes back, with `env` over everything else. */
type Recipe = (building: Building, port: number | undefined, env: Record<string, string>) => Promise<Started>

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DATABASE = 'tidegate'

/** The port for a part: the one it had, else what the options want, else any free one. */
async function portFor(building: Building, name: PartName, port: number | undefined): Promise<number> {
  if (port !== undefined) return port
  const wish = building.options.ports?.[name]
  if (wish && 'required' in wish)
    return choosePort({ required: { port: wish.required, setting: wish.setting } })
  return choosePort({ preferred: wish?.preferred ?? [] })
}

/** What the core and the edge must agree on. */
function sharedSettings({ keys, issuer }: Building): Record<string, string> {
  return {
    LOGIN_JWKS_URL: issuer.jwksUrl,
    LOGIN_ISSUER,
    LOGIN_AUDIENCE,
    CLAIM_TOKEN_KEYS: keys.claimTokenKeys,
    RECEIPT_KEYS: keys.receiptKeys,
    CAMPAIGN_ID_KEYS: keys.campaignIdKeys,
    EDGE_CORE_KEYS: keys.edgeCoreKeys,
  }
}

function workerConfig({ options }: Building): string {
  return options.workerConfig ?? join(ROOT, 'wrangler.toml')
}

export const RECIPES: Record<PartName, Recipe> = {
  async postgres(building, port) {
    const dir = join(building.dir, 'postgres')
    const settings = building.options.postgres?.settings ?? {}
    return startPostgres({ dir, port: await portFor(building, 'postgres', port), settings })
  },

  async redis(building, port) {
    const progress = building.options.progress
    const home = join(building.home, 'redis-program')
    const binary = await ensureRedis({ home, ...(progress ? { progress } : {}) })
    return startRedis({
      ...building.options.redis,
      binary,
      dir: join(building.dir, 'redis'),
      port: await portFor(building, 'redis', port),
    })
  },

  async gateway(building, port, env) {
    return startService({
      name: 'gateway',
      file: 'stack/gateway/main.ts',
      dir: building.dir,
      env: {
        GATEWAY_PORT: String(await portFor(building, 'gateway', port)),
        GATEWAY_TOKEN: building.keys.gatewayToken,
        REDIS_URL: building.endpoints.redis,
        ...building.options.env?.gateway,
        ...env,
      },
    })
  },

  async core(building, port, env) {
    return startService({
      name: 'core',
      file: 'core/main.ts',
      dir: building.dir,
      env: {
        ...sharedSettings(building),
        CORE_PORT: String(await portFor(building, 'core', port)),
        DATABASE_URL: building.endpoints.postgres,
        REDIS_URL: building.endpoints.redis,
        REDIS_STORES: JSON.stringify(
          Object.fromEntries(building.scaled.stores.map((s) => [s.name, s.redis])),
        ),
        ...building.options.env?.core,
        ...env,
      },
    })
  },

  async edge(building, port, env) {
    const temporary = join(building.dir, 'tmp')
    // Miniflare's own temporary files: a killed worker leaves them, so each start begins with none.
    rmSync(temporary, { recursive: true, force: true })
    mkdirSync(temporary, { recursive: true })
    const { endpoints, keys, options } = building
    const bindings = {
      ...sharedSettings(building),
      UPSTASH_REDIS_REST_URL: endpoints.gateway,
      UPSTASH_REDIS_REST_TOKEN: options.external?.upstash?.token ?? keys.gatewayToken,
      UPSTASH_STORES: JSON.stringify(
        Object.fromEntries(
          building.scaled.stores.map(({ name, gateway }) => [
            name,
            { url: gateway, token: keys.gatewayToken },
          ]),
        ),
      ),
      CORE_URL: endpoints.core,
      // Nothing in front of the local worker says where a request comes from, and one machine is everybody's device.
      CLIENT_ADDRESS: 'optional',
      LIMITS: 'token.device=100000/1m:50000,claim.device=100000/1m:50000',
      ...options.env?.edge,
      ...env,
    }
    return startService({
      name: 'edge',
      file: 'stack/worker.ts',
      dir: building.dir,
      env: {
        TMPDIR: temporary,
        WORKER_CONFIG: workerConfig(building),
        WORKER_CACHE: join(building.home, 'bundles'),
        WORKER_PORT: String(await portFor(building, 'edge', port)),
        WORKER_BINDINGS: JSON.stringify(bindings),
        ...(options.workerV8Flags === undefined ? {} : { WORKER_V8_FLAGS: options.workerV8Flags }),
      },
    })
  },
}

/**
 * Builds the campaign page and bundles the worker, in processes of their own, while the databases start: the two
 * take about as long.
 */
export async function warmBundle(building: Building): Promise<void> {
  const { options, home } = building
  if (options.only && !options.only.includes('edge')) return
  // A worker given by the caller brings its own assets, or none.
  if (options.workerConfig === undefined) await build('edge/site/build.ts')
  await build('stack/bundle.ts', workerConfig(building), join(home, 'bundles'))
}

async function build(file: string, ...args: string[]): Promise<void> {
  const result = await runCommand(process.execPath, [join(ROOT, file), ...args], { timeoutMs: 180_000 })
  if (result.code !== 0) throw new Error(`${file} failed:\n${result.output.trim()}`)
}

/** The URL of the product's own database on that server, which is made when it isn't there. */
export async function databaseFor(serverUrl: string): Promise<string> {
  const sql = postgres(serverUrl, { max: 1, onnotice: () => undefined })
  try {
    const found = await sql`SELECT 1 FROM pg_database WHERE datname = ${DATABASE}`
    if (found.length === 0) await sql.unsafe(`CREATE DATABASE ${DATABASE}`)
  } finally {
    await sql.end({ timeout: 5 })
  }
  const url = new URL(serverUrl)
  url.pathname = `/${DATABASE}`
  return url.href
}
