import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { V4WorkerOptions } from 'miniflare'
import { inheritedEnvironment } from './host.ts'
import { runCommand } from './run-command.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

export interface Bundle {
  /** The bundled worker, one ES module. */
  script: string
  /** What wrangler.toml says, as Miniflare's worker options, without the code. */
  options: Omit<V4WorkerOptions, 'modules' | 'script' | 'modulesRules' | 'rootPath'>
}

/** Offline, and silent towards the vendor: the banner comes with a look for updates. */
export const OFFLINE = {
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_HIDE_BANNER: 'true',
}

/** Names below a worker's folder that never become part of its bundle. */
function unrelated(name: string): boolean {
  return ['node_modules', 'site', 'public', '.wrangler'].includes(name) || name.endsWith('.test.ts')
}

/** Everything a bundle is made from; equal fingerprints give equal bundles. */
function fingerprint(config: string): string {
  const hash = createHash('sha256')
  const toml = readFileSync(config, 'utf8')
  const main = /^main\s*=\s*["']([^"']+)["']/m.exec(toml)?.[1]
  if (main === undefined) throw new Error(`${config} names no main: it can't be bundled`)
  const folder = dirname(resolve(dirname(config), main))
  const sources = ['**/*.{ts,js,mjs,json,lua,toml,html,txt}']
  const ours = folder.startsWith(ROOT) ? ['schema', 'lua'].map((name) => join(ROOT, name)) : []
  for (const base of [folder, ...ours])
    for (const file of globSync(sources, { cwd: base, exclude: unrelated }).sort()) {
      hash.update(`${relative(ROOT, join(base, file))}\0`)
      hash.update(readFileSync(join(base, file)))
    }
  hash.update(readFileSync(join(ROOT, 'package-lock.json')))
  hash.update(`${config}\0${toml}`)
  return hash.digest('hex').slice(0, 20)
}

/** wrangler is a slow import (a second and more), and needed only when there is something to bundle. */
async function readOptions(config: string): Promise<Bundle['options']> {
  const { unstable_getMiniflareWorkerOptions } = await import('wrangler')
  const { workerOptions } = unstable_getMiniflareWorkerOptions(config)
  const { modulesRules: _rules, rootPath: _root, ...options } = workerOptions as Record<string, unknown>
  return options
}

async function bundleWith(config: string, folder: string): Promise<void> {
  const wrangler = join(
    dirname(createRequire(import.meta.url).resolve('wrangler/package.json')),
    'bin',
    'wrangler.js',
  )
  const args = [wrangler, 'deploy', '--dry-run', '--config', config, '--outdir', join(folder, 'out')]
  const result = await runCommand(process.execPath, args, {
    cwd: dirname(config),
    env: { ...inheritedEnvironment(), ...OFFLINE, CI: 'true', NO_COLOR: '1' },
    timeoutMs: 120_000,
  })
  if (result.code !== 0) throw new Error(`wrangler could not bundle ${config}:\n${result.output.trim()}`)
}

/**
 * Bundles the worker of a wrangler.toml as `wrangler deploy` would, or takes the bundle made before from the
 * same sources.
 * @param config path of wrangler.toml
 * @param cache folder where bundles are kept
 * @throws with wrangler's own words when the worker doesn't bundle.
 */
export async function bundleWorker(config: string, cache: string): Promise<Bundle> {
  const path = resolve(config)
  const place = join(cache, fingerprint(path))
  if (!existsSync(join(place, 'options.json'))) {
    const work = `${place}.new-${process.pid}`
    rmSync(work, { recursive: true, force: true })
    mkdirSync(work, { recursive: true })
    try {
      const [options] = await Promise.all([readOptions(path), bundleWith(path, work)])
      writeFileSync(join(work, 'options.json'), JSON.stringify(options))
      keep(work, place)
    } finally {
      rmSync(work, { recursive: true, force: true })
    }
  }
  const script = globSync('out/*.js', { cwd: place })[0]
  if (script === undefined)
    throw new Error(`wrangler left no script in ${place}. Remove that folder and try again.`)
  return {
    script: join(place, script),
    options: JSON.parse(readFileSync(join(place, 'options.json'), 'utf8')),
  }
}

/** Another process that bundled the same sources meanwhile has left the same there. */
function keep(work: string, place: string): void {
  try {
    renameSync(work, place)
  } catch (error) {
    if (!existsSync(join(place, 'options.json'))) throw error
  }
}

// As a program: bundles ahead, while other parts of a stack start.
if (import.meta.main) {
  const [config, cache] = process.argv.slice(2)
  if (!config || !cache) throw new Error('Usage: bundle.ts <wrangler.toml> <cache folder>')
  await bundleWorker(config, cache)
}
