import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

/** A process that can be recognised later, when its number may belong to another one. */
export interface ProcessId {
  pid: number
  /** When it started, in the system's own words; equal text means the same process. */
  birth: string
}

/**
 * Tells when a process started, or undefined when no such process runs.
 * A zombie counts as gone: in a container nobody may ever collect it.
 */
export function birthOf(pid: number): string | undefined {
  if (process.platform === 'linux') {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
      // The command name may hold spaces and parentheses, so the fields are counted from its end.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
    } catch {
      return undefined
    }
  }
  try {
    const line = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim()
    return line === '' || line.startsWith('Z') ? undefined : line.replace(/^\S+\s+/, '')
  } catch {
    return undefined
  }
}

/** The identity of a running process, or undefined when it doesn't run. */
export function identify(pid: number): ProcessId | undefined {
  const birth = birthOf(pid)
  return birth === undefined ? undefined : { pid, birth }
}

/** Whether exactly this process still runs. */
export function isRunning(id: ProcessId): boolean {
  return birthOf(id.pid) === id.birth
}

/** The command line of a process, its words joined by spaces; empty when it doesn't run. */
export function commandOf(pid: number): string {
  try {
    // `ps` is missing from small Debian images; /proc is not.
    if (process.platform === 'linux')
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
    return execFileSync('ps', ['-ww', '-o', 'args=', '-p', String(pid)], { encoding: 'utf8' })
  } catch {
    return ''
  }
}

/** The parent of every process, by process number. */
function parents(): Map<number, number> {
  const found = new Map<number, number>()
  if (process.platform === 'linux') {
    for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
        found.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
      } catch {
        // Ended since the folder was listed.
      }
    }
    return found
  }
  for (const line of execFileSync('ps', ['-axo', 'pid=,ppid='], { encoding: 'utf8' }).trim().split('\n')) {
    const [pid, parent] = line.trim().split(/\s+/).map(Number)
    if (pid !== undefined && parent !== undefined) found.set(pid, parent)
  }
  return found
}

/** Sends a signal to a process and everything it started, also what left its process group (as PostgreSQL's do). */
export function signalTree(pid: number, name: NodeJS.Signals): void {
  const all = parents()
  const tree = [pid]
  for (const member of tree) for (const [child, parent] of all) if (parent === member) tree.push(child)
  for (const member of tree) signal(member, name)
}

/** Sends a signal; a process that is gone already is not an error. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/**
 * Waits until a condition holds.
 * @throws when it doesn't within `timeoutMs`; the message is `what`.
 */
export async function until<T>(
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  what: string,
  timeoutMs: number,
  everyMs = 20,
): Promise<T> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value !== undefined && value !== false) return value
    if (performance.now() > deadline) throw new Error(`${what} (waited ${timeoutMs} ms)`)
    await pause(everyMs)
  }
}

/** Ends a process of an earlier run: politely first, by force after `graceMs`. Returns whether it ran. */
export async function endProcess(id: ProcessId, polite: NodeJS.Signals, graceMs: number): Promise<boolean> {
  if (!isRunning(id)) return false
  signal(id.pid, polite)
  try {
    await until(() => !isRunning(id), `process ${id.pid} ignores ${polite}`, graceMs)
  } catch {
    signal(id.pid, 'SIGKILL')
    await until(() => !isRunning(id), `process ${id.pid} can't be ended`, 5_000)
  }
  return true
}
