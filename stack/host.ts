import { accessSync, constants, statSync } from 'node:fs'
import { join } from 'node:path'

/** Where package managers put programs that a plain login's PATH may lack. */
const USUAL = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/opt/homebrew/bin', '/snap/bin']

/** The first of these programs on a search path (PATH and the usual folders), or undefined. */
export function findProgram(names: string[], folders = searchPath()): string | undefined {
  for (const name of names) {
    for (const folder of folders) {
      const file = join(folder, name)
      try {
        accessSync(file, constants.X_OK)
        if (statSync(file).isFile()) return file
      } catch {
        // Not here: the next folder may have it.
      }
    }
  }
  return undefined
}

/** The folders to look for programs in: PATH first, then the usual ones that it lacks. */
export function searchPath(): string[] {
  const own = (process.env['PATH'] ?? '').split(':').filter((folder) => folder.startsWith('/'))
  return [...new Set([...own, ...USUAL])]
}

/** What of our own environment a program that we start may need to work at all; its settings are given to it. */
export function inheritedEnvironment(): Record<string, string> {
  const proxies = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']
  const names = [
    'HOME',
    'TMPDIR',
    'LANG',
    'NODE_EXTRA_CA_CERTS',
    ...proxies,
    ...proxies.map((n) => n.toLowerCase()),
  ]
  const kept = names.flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value] as const]
  })
  return { PATH: searchPath().join(':'), ...Object.fromEntries(kept) }
}
