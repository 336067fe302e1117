import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { migrate } from '../schema/db/migrate.ts'
import { reapLeftover } from './child.ts'
import { type LoginRequest, mintLogin, startIssuer } from './issuer.ts'
import { keepKeys, type StackKeys } from './keys.ts'
import { lockFolder } from './lock.ts'
import { Part, type UnexpectedEnd } from './part.ts'
import { until } from './process.ts'
import { type Building, databaseFor, RECIPES, warmBundle } from './recipes.ts'
import {
  furtherFolders,
  type Scaled,
  type ScaleOptions,
  startCluster,
  startFurtherFronts,
  startFurtherStores,
  stopFurther,
} from './scaleOut.ts'

/** The parts in the order in which each needs those before it. */
export type PartName = 'postgres' | 'redis' | 'gateway' | 'core' | 'edge'

export interface StackOptions {
  /** Holds everything the stack keeps: data, keys, logs. One stack at a time runs on it. */
  dir: string
  /** Where shared, costly things are kept (a fetched Redis, worker bundles); `.tidegate` unless given. */
  home?: string
  /** Existing servers to use instead of our own. */
  external?: External
  /** Ports to take: those `required` or an error, those `preferred` if they are free. Any free one otherwise. */
  ports?: Partial<Record<PartName, { required: number; setting: string } | { preferred: number[] }>>
  /** Environment of single parts, over what the stack gives them. */
  env?: Partial<Record<PartName, Record<string, string>>>
  redis?: { appendfsync?: 'always' | 'everysec' | 'no' | 'off'; args?: string[] }
  postgres?: { settings?: Record<string, string> }
  /** Start only these (and not what they need): for a bench that wants Redis and the gateway alone. */
  only?: PartName[]
  /** More than one of something: see scaleOut.ts. */
  scale?: ScaleOptions
  /** The worker's wrangler.toml; the repository's unless given. */
  workerConfig?: string
  /** Flags of the worker runtime's engine (WORKER_V8_FLAGS in worker.ts); short pauses unless given. */
  workerV8Flags?: string
  progress?: (line: string) => void
  /** A part ended that nobody asked to end; without this, it is written to standard error. */
  onUnexpectedEnd?: (end: UnexpectedEnd) => void
}

export interface External {
  databaseUrl?: string | undefined
  redisUrl?: string | undefined
  upstash?: { url: string; token: string } | undefined
}

export interface Endpoints {
  edge: string
  core: string
  gateway: string
  redis: string
  postgres: string
  issuer: string
}

export interface Stack {
  dir: string
  keys: StackKeys
  endpoints: Endpoints
  /** The programs that this stack started; external servers are not among them. */
  parts: Partial<Record<PartName, Part>>
  /** What there is more than one of, where the options ask for it. */
  scaled: Scaled
  /** A part by name. @throws when this stack didn't start it. */
  part(name: PartName): Part
  /** A signed login of the local issuer. */
  mintLogin(request: LoginRequest): Promise<string>
  /** Ends every part, the last started first, and leaves the data. */
  stop(): Promise<void>
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))

/** Starts one part, unless the options leave it out or an external server stands for it. */
async function startPart(building: Building, name: PartName): Promise<Part | undefined> {
  const { options, parts } = building
  if (options.only && !options.only.includes(name)) return undefined
  const external = options.external ?? {}
  const replaced = { postgres: external.databaseUrl, redis: external.redisUrl, gateway: external.upstash }
  if (name in replaced && replaced[name as keyof typeof replaced] !== undefined) return undefined
  const report =
    options.onUnexpectedEnd ??
    ((end) => process.stderr.write(`${end.name} ended (${end.exit.signal ?? end.exit.code}):\n${end.tail}\n`))
  const part = new Part(name, (port, env) => RECIPES[name](building, port, env), report)
  options.progress?.(`Starting ${name}`)
  // Known before it is ready, so that a start that fails half way ends it too.
  parts[name] = part
  await part.start()
  return part
}

async function startDatabase(building: Building): Promise<void> {
  const part = await startPart(building, 'postgres')
  if (part) building.endpoints.postgres = await databaseFor(part.url)
  if (building.endpoints.postgres === '') return
  const applied = await migrate(building.endpoints.postgres)
  if (applied.length > 0) building.options.progress?.(`Applied ${applied.length} migrations`)
}

async function startStore(building: Building): Promise<void> {
  if (building.options.scale?.cluster) await startCluster(building)
  else {
    const redis = await startPart(building, 'redis')
    if (redis) building.endpoints.redis = redis.url
  }
  await startFurtherStores(building)
  const gateway = await startPart(building, 'gateway')
  if (gateway) building.endpoints.gateway = gateway.url
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) })).status === 200
  } catch {
    return false
  }
}

async function startFront(building: Building): Promise<void> {
  const core = await startPart(building, 'core')
  if (core) {
    building.endpoints.core = core.url
    await until(() => isReady(core.url), `core is not ready; see ${core.logFile}`, 30_000, 50)
  }
  await startFurtherFronts(building, 'core')
  const edge = await startPart(building, 'edge')
  if (edge) building.endpoints.edge = edge.url
  await startFurtherFronts(building, 'edge')
}

async function stopParts({ parts, issuer, scaled }: Building): Promise<void> {
  for (const name of ['edge', 'core', 'gateway'] as const) {
    await stopFurther(scaled, name)
    await parts[name]?.stop()
  }
  await Promise.all([stopFurther(scaled, 'redis'), parts.redis?.stop(), parts.postgres?.stop()])
  await issuer.stop()
}

function stackOf(building: Building, release: () => void): Stack {
  const { dir, keys, endpoints, parts, scaled } = building
  let stopping: Promise<void> | undefined
  return {
    dir,
    keys,
    endpoints,
    parts,
    scaled,
    part(name) {
      const part = parts[name]
      if (!part) throw new Error(`This stack has no ${name} of its own`)
      return part
    },
    mintLogin: (request) => mintLogin(keys, request),
    stop() {
      stopping ??= stopParts(building).finally(release)
      return stopping
    },
  }
}

/** Ends what a killed run left on this folder, those who use others first. */
async function reapAll(dir: string): Promise<void> {
  for (const name of ['edge', 'core', 'gateway']) await reapLeftover(dir, name, 'SIGTERM')
  await reapLeftover(join(dir, 'redis'), 'redis', 'SIGTERM')
  for (const { folder, name } of furtherFolders(dir)) await reapLeftover(folder, name, 'SIGTERM')
}

/**
 * Starts the whole system on one folder: PostgreSQL (with its migrations), Redis, the Upstash-compatible
 * gateway, the core and the edge worker in workerd, each as a process of its own that ends when we end.
 * Everything that a former run kept there is found again.
 * @throws when a part doesn't start, with the end of its log; whatever had started is ended first.
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const dir = resolve(options.dir)
  const lock = lockFolder(dir)
  let building: Building | undefined
  try {
    // It names the processes of a former run; until ours are ready, no address is better than an old one.
    rmSync(join(dir, 'endpoints.json'), { force: true })
    await reapAll(dir)
    const home = resolve(options.home ?? join(ROOT, '.tidegate'))
    mkdirSync(home, { recursive: true, mode: 0o711 })
    const keys = await keepKeys(join(dir, 'keys.json'))
    const issuer = await startIssuer(keys)
    const external = options.external ?? {}
    const endpoints: Endpoints = {
      edge: '',
      core: '',
      gateway: external.upstash?.url ?? '',
      redis: external.redisUrl ?? '',
      postgres: external.databaseUrl ?? '',
      issuer: issuer.url,
    }
    const scaled: Scaled = { parts: new Map(), stores: [], cores: [], edges: [] }
    building = { options, dir, home, keys, issuer, endpoints, parts: {}, scaled }
    const steps = [startDatabase(building), startStore(building), warmBundle(building)]
    // All of them settle before anything is undone: what starts late would otherwise be left over.
    const results = await Promise.allSettled(steps)
    const failed = results.find((result) => result.status === 'rejected')
    if (failed) throw failed.reason
    await startFront(building)
    return stackOf(building, lock.release)
  } catch (error) {
    if (building) await stopParts(building)
    lock.release()
    throw error
  }
}
