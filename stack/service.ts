import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Child, startChild, untilReady } from './child.ts'
import { inheritedEnvironment } from './host.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

export interface ServiceOptions {
  name: string
  /** A TypeScript file, relative to the checkout, that prints {"listening": url} when it serves. */
  file: string
  env: Record<string, string>
  dir: string
  timeoutMs?: number
}

export interface Service extends Child {
  url: string
}

/**
 * Starts one of our Node programs and waits for its line {"listening": url}; everything else it says is in its log.
 * @throws when it ends first or stays silent, with the end of its log.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { name, file, dir } = options
  let url: string | undefined
  const log = join(dir, `${name}.log`)
  const child = await startChild({
    name,
    command: process.execPath,
    args: ['--enable-source-maps', join(ROOT, file)],
    env: { ...inheritedEnvironment(), ...options.env },
    dir,
    cwd: ROOT,
    onLine(line) {
      if (url === undefined && line.startsWith('{"listening":')) url = JSON.parse(line).listening
      appendFileSync(log, `${line}\n`)
    },
  })
  try {
    const listening = await untilReady(child, () => url, options.timeoutMs ?? 60_000)
    return { ...child, url: listening }
  } catch (error) {
    await child.kill()
    throw error
  }
}
