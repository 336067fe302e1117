import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { identify, isRunning, type ProcessId } from './process.ts'

export interface Lock {
  release(): void
}

function holder(file: string): ProcessId | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}

/**
 * Makes sure that one process at a time runs a stack on `dir`. A lock whose holder is gone is taken over, also
 * when its process number belongs to another program by now.
 * @throws when another stack runs there, naming its process.
 */
export function lockFolder(dir: string): Lock {
  mkdirSync(dir, { recursive: true, mode: 0o711 })
  const file = join(dir, 'stack.lock')
  const mine = `${file}.${process.pid}`
  writeFileSync(mine, JSON.stringify(identify(process.pid)))
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        // A link appears whole or not at all, so nobody ever reads half a lock.
        linkSync(mine, file)
        break
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || attempt === 20) throw error
      }
      const held = holder(file)
      if (held && isRunning(held))
        throw new Error(
          `A stack runs on ${dir} already (process ${held.pid}; its addresses are in ${join(dir, 'endpoints.json')}). Stop it with Ctrl-C, or: kill ${held.pid}`,
        )
      rmSync(file, { force: true })
    }
  } finally {
    rmSync(mine, { force: true })
  }
  return { release: () => rmSync(file, { force: true }) }
}
