import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Service, startService } from '../../stack/service.ts'
import { temporaryFolder } from '../../stack/testing.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const repositoryConfig = join(ROOT, 'wrangler.toml')

export interface GateOptions {
  /** Another wrangler.toml than the repository's. */
  config?: string | undefined
  /** How many isolates, one unless given. They share the location's cache, and nothing else. */
  isolates?: number | undefined
}

/** A process of its own, so also a location of its own. */
export interface Gate extends Service {
  /** The address of each isolate, the first of which is `url`. */
  isolates: string[]
}

/** The bundle in workerd, with these text bindings. */
export async function startWorker(
  bindings: Record<string, string>,
  { config = repositoryConfig, isolates = 1 }: GateOptions = {},
): Promise<Gate> {
  const dir = temporaryFolder('edge')
  // The page is built by another command; the bundler wants its folder to be there.
  mkdirSync(join(ROOT, 'edge', 'site', 'public'), { recursive: true })
  const service = await startService({
    name: 'edge',
    file: 'stack/worker.ts',
    dir,
    env: {
      TMPDIR: dir,
      WORKER_CONFIG: config,
      WORKER_CACHE: join(ROOT, '.tidegate', 'bundles'),
      WORKER_BINDINGS: JSON.stringify(bindings),
      WORKER_ISOLATES: String(isolates),
    },
  })
  const line = /^\{"listening":.*$/m.exec(readFileSync(join(dir, 'edge.log'), 'utf8'))!
  return { ...service, isolates: JSON.parse(line[0]).isolates }
}
