import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { guardProcess, releaseProcess } from './guard.ts'
import { endProcess, identify, isRunning, type ProcessId, signal, until } from './process.ts'

/** A log that grew beyond this is begun anew at the next start. */
const LOG_BYTES_MAX = 5_000_000

export interface ChildOptions {
  name: string
  command: string
  args: string[]
  /** The whole environment of the child; nothing is inherited. */
  env: Record<string, string>
  /** Holds `<name>.log` and `<name>.pid`. */
  dir: string
  cwd?: string
  uid?: number
  gid?: number
  /** The signal that asks for an orderly end. */
  polite?: NodeJS.Signals
  /** Read the child's standard output line by line instead of sending it to the log. */
  onLine?: (line: string) => void
  /** Let this process end although the child still runs; the guard then ends the child. */
  background?: boolean
}

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
}

export interface Child {
  name: string
  pid: number
  logFile: string
  /** Settles when the process has ended. */
  exited: Promise<Exit>
  running(): boolean
  /** Asks for an orderly end and waits; by force after `graceMs` (8,000). */
  stop(graceMs?: number): Promise<Exit>
  /** Ends its whole process group at once (SIGKILL) and waits. */
  kill(): Promise<Exit>
  /** The last lines of its log, as far as this process wrote it. */
  tail(lines?: number): string
}

/** The last lines of a log file from byte `from` on; empty when there is none. */
function tailOf(file: string, from: number, lines = 20): string {
  try {
    return readFileSync(file).subarray(from).toString().trimEnd().split('\n').slice(-lines).join('\n')
  } catch {
    return ''
  }
}

/** Ends what an earlier run left behind under this name, when it is still the same process. */
export async function reapLeftover(dir: string, name: string, polite: NodeJS.Signals): Promise<boolean> {
  const file = join(dir, `${name}.pid`)
  let left: ProcessId
  try {
    left = JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return false
  }
  const ended = await endProcess(left, polite, 8_000)
  rmSync(file, { force: true })
  return ended
}

/** Signals every process of the group that `leader` led; an empty group is not an error. */
function signalGroup(leader: number, name: NodeJS.Signals): void {
  signal(-leader, name)
}

/** Waits for the end, and does `late` if it takes longer. The timer also keeps us alive while we wait. */
async function within(exited: Promise<Exit>, ms: number, late: () => void): Promise<Exit> {
  const timer = setTimeout(late, ms)
  try {
    return await exited
  } finally {
    clearTimeout(timer)
  }
}

function follow(process: ChildProcess, onLine: (line: string) => void): void {
  let rest = ''
  process.stdout?.setEncoding('utf8')
  process.stdout?.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) onLine(line)
  })
}

/**
 * Starts a process in its own process group, with its output in `<dir>/<name>.log`.
 * It is ended when this process ends, however that happens, and `<name>.pid` lets a later run find it.
 * @throws when the program can't be started (not found, not permitted).
 */
export async function startChild(options: ChildOptions): Promise<Child> {
  const { name, dir, polite = 'SIGTERM', onLine } = options
  mkdirSync(dir, { recursive: true })
  await reapLeftover(dir, name, polite)
  const logFile = join(dir, `${name}.log`)
  const size = statSync(logFile, { throwIfNoEntry: false })?.size ?? 0
  const log = openSync(logFile, size > LOG_BYTES_MAX ? 'w' : 'a', 0o600)
  const logFrom = size > LOG_BYTES_MAX ? 0 : size
  const child = spawn(options.command, options.args, {
    cwd: options.cwd ?? dirname(logFile),
    env: options.env,
    detached: true,
    stdio: ['ignore', onLine ? 'pipe' : log, log],
    ...(options.uid === undefined ? {} : { uid: options.uid }),
    ...(options.gid === undefined ? {} : { gid: options.gid }),
  })
  closeSync(log)
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
  const pid = child.pid as number
  guardProcess(pid, polite)
  const pidFile = join(dir, `${name}.pid`)
  const id = identify(pid)
  if (id) writeFileSync(pidFile, JSON.stringify(id))
  if (onLine) follow(child, onLine)
  if (options.background) child.unref()
  let ended: Exit | undefined
  const exited = new Promise<Exit>((resolve) => {
    child.once('exit', (code, signalName) => {
      ended = { code, signal: signalName }
      // Helpers that it left in its group (workerd under the worker's runner) end with it.
      signalGroup(pid, 'SIGKILL')
      releaseProcess(pid)
      rmSync(pidFile, { force: true })
      resolve(ended)
    })
  })
  return {
    name,
    pid,
    logFile,
    exited,
    running: () => ended === undefined && (id === undefined || isRunning(id)),
    async stop(graceMs = 8_000) {
      if (!ended) signal(pid, polite)
      return within(exited, graceMs, () => signalGroup(pid, 'SIGKILL'))
    },
    async kill() {
      if (!ended) signalGroup(pid, 'SIGKILL')
      return within(exited, 8_000, () => undefined)
    },
    tail: (lines) => tailOf(logFile, logFrom, lines),
  }
}

/**
 * Waits until a child is ready.
 * @throws when it ends first or takes longer than `timeoutMs`; the message holds the end of its log.
 */
export async function untilReady<T>(
  child: Child,
  ready: () => T | undefined | false | Promise<T | undefined | false>,
  timeoutMs: number,
): Promise<T> {
  let exit: Exit | undefined
  void child.exited.then((value) => {
    exit = value
  })
  try {
    return await until(
      () => {
        if (exit) throw new Error(`${child.name} ended (${exit.signal ?? exit.code})`)
        return ready()
      },
      `${child.name} did not become ready`,
      timeoutMs,
    )
  } catch (error) {
    throw new Error(`${(error as Error).message}. End of ${child.logFile}:\n${child.tail()}`)
  }
}
