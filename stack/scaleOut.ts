import { existsSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Balancer, startBalancer } from './balancer.ts'
import { Part } from './part.ts'
import { freePort } from './ports.ts'
import { until } from './process.ts'
import { type Building, RECIPES } from './recipes.ts'
import { startRedis } from './redis.ts'
import { formCluster, nodeArguments } from './redis-cluster.ts'
import { ensureRedis } from './redis-install.ts'
import type { PartName } from './stack.ts'

/** More than one of something in a stack, for scale-out (SC1 to SC3). */
export interface ScaleOptions {
  /** Core processes, behind one address. */
  cores?: number
  /** Worker runtimes, each with an address of its own. */
  workers?: number
  /** Makes the main store a cluster, empty at each start: so many masters, and replicas dealt out to them. */
  cluster?: { masters: number; replicas: number }
  /** Names of further stores, each a Redis and a gateway of its own. */
  stores?: readonly string[]
}

export interface Scaled {
  /** What there is beside the stack's first parts: `core-2`, `edge-2`, `redis-two`, `gateway-two`, `redis-node-1`. */
  parts: Map<string, Part>
  /** Beside the main one. */
  stores: { name: string; redis: string; gateway: string }[]
  /** Addresses of all core processes, the first included; `endpoints.core` leads to each of them in turn. */
  cores: string[]
  /** Addresses of all worker runtimes, the first included. */
  edges: string[]
  balancer?: Balancer
}

const further = /^(core|edge|gateway|redis)-[a-z0-9-]+$/

/** Where further parts of a former run on this folder kept their process files, those who use others first. */
export function furtherFolders(dir: string): { folder: string; name: string }[] {
  if (!existsSync(dir)) return []
  const order = ['edge', 'core', 'gateway', 'redis']
  return readdirSync(dir)
    .flatMap((entry) => {
      const name = further.exec(entry)?.[1]
      return name === undefined ? [] : [{ entry, name }]
    })
    .sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
    .map(({ entry, name }) => ({ folder: join(dir, entry, name === 'redis' ? 'redis' : ''), name }))
}

/** One more part of a kind, in a folder of its own; `building` says what it is to find. */
async function startFurther(building: Building, kind: PartName, suffix: string): Promise<Part> {
  const name = `${kind}-${suffix}`
  const { ports: _, ...options } = building.options
  const its: Building = { ...building, options, dir: join(building.dir, name) }
  const part = new Part(name, (port, env) => RECIPES[kind](its, port, env), reporter(building))
  building.options.progress?.(`Starting ${name}`)
  building.scaled.parts.set(name, part)
  await part.start()
  return part
}

function reporter({ options }: Building): ConstructorParameters<typeof Part>[2] {
  return (
    options.onUnexpectedEnd ??
    ((end) => process.stderr.write(`${end.name} ended (${end.exit.signal ?? end.exit.code}):\n${end.tail}\n`))
  )
}

/** The nodes are parts `redis-node-1` …, the masters first. */
export async function startCluster(building: Building): Promise<void> {
  const { masters, replicas } = building.options.scale!.cluster!
  const binary = await ensureRedis({ home: join(building.home, 'redis-program') })
  building.options.progress?.(`Starting a cluster of ${masters} masters and ${replicas} replicas`)
  const nodes = await Promise.all(
    Array.from({ length: masters + replicas }, async (_, i) => {
      const name = `redis-node-${i + 1}`
      const given = building.options.redis
      const args = [...(await nodeArguments(await freePort())), ...(given?.args ?? [])]
      const dir = join(building.dir, name, 'redis')
      // Nodes of a former run know each other by ports that are others' now.
      rmSync(dir, { recursive: true, force: true })
      const start = (port: number | undefined) =>
        startRedis({ ...given, args, binary, dir, ...(port === undefined ? {} : { port }) })
      const part = new Part(name, start, reporter(building))
      building.scaled.parts.set(name, part)
      await part.start()
      return part
    }),
  )
  await formCluster(nodes, masters)
  // Whoever follows the masters finds the others; who counted a replica's commands would count them twice.
  building.endpoints.redis = nodes
    .slice(0, masters)
    .map(({ url }) => url)
    .join(',')
}

export async function startFurtherStores(building: Building): Promise<void> {
  for (const name of building.options.scale?.stores ?? []) {
    const redis = await startFurther(building, 'redis', name)
    const endpoints = { ...building.endpoints, redis: redis.url }
    const gateway = await startFurther({ ...building, endpoints }, 'gateway', name)
    building.scaled.stores.push({ name, redis: redis.url, gateway: gateway.url })
  }
}

/** The core processes beside the first and the balancer before all of them, or the further worker runtimes. */
export async function startFurtherFronts(building: Building, kind: 'core' | 'edge'): Promise<void> {
  const { options, endpoints, scaled, parts } = building
  const first = parts[kind]
  const urls = kind === 'core' ? scaled.cores : scaled.edges
  if (first === undefined) return
  urls.push(first.url)
  const count = (kind === 'core' ? options.scale?.cores : options.scale?.workers) ?? 1
  for (let i = 2; i <= count; i++) urls.push((await startFurther(building, kind, String(i))).url)
  if (kind === 'edge' || count === 1) return
  for (const url of urls) await until(() => isUp(`${url}/readyz`), `${url} is not ready`, 30_000, 50)
  scaled.balancer = await startBalancer(urls)
  endpoints.core = scaled.balancer.url
}

async function isUp(url: string): Promise<boolean> {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

export async function stopFurther({ parts, balancer }: Scaled, kind: string): Promise<void> {
  if (kind === 'core') await balancer?.close()
  const these = [...parts].filter(([name]) => name.startsWith(`${kind}-`))
  await Promise.all(these.map(([, part]) => part.stop()))
}
