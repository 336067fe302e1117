import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import type { Stack } from '../../stack/stack.ts'
import { cpuSeconds } from '../bench/edge/cpu.ts'

/** CPU seconds by process since each began, and of the whole machine; empty where the system doesn't tell. */
export interface CpuLook {
  readonly at: number
  readonly processes: ReadonlyMap<string, number>
  /** Of everything that runs on the machine; undefined where it doesn't tell. */
  readonly machine: number | undefined
}

export function lookAtCpu(stack: Stack): CpuLook {
  const processes = new Map<string, number>()
  const note = (name: string, pid: number) => {
    const seconds = cpuSeconds(pid)
    if (seconds !== undefined) processes.set(name, seconds)
  }
  for (const [name, part] of Object.entries(stack.parts)) note(name, part.pid)
  for (const [name, part] of stack.scaled.parts) if (part.running()) note(name, part.pid)
  const { user, system } = process.cpuUsage()
  processes.set('driver', (user + system) / 1e6)
  return { at: performance.now(), processes, machine: busySeconds() }
}

/** All time of all CPUs that was neither idle nor waiting for a disk. */
function busySeconds(): number | undefined {
  if (process.platform !== 'linux') return undefined
  const line = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!
  const [user, nice, system, , , interrupts, soft] = line.split(/ +/).slice(1).map(Number)
  return (user! + nice! + system! + interrupts! + soft!) / 100
}

/** How many CPUs each process used, on average; `machine` of `cpus` were in use, by others too. */
export interface CpuUse {
  readonly processes: Readonly<Record<string, number>>
  readonly machine: number | undefined
  readonly cpus: number
}

export function cpuBetween(before: CpuLook, after: CpuLook): CpuUse {
  const seconds = (after.at - before.at) / 1_000
  const processes: Record<string, number> = {}
  for (const [name, used] of after.processes)
    processes[name] = Math.max(0, used - (before.processes.get(name) ?? used)) / seconds
  const machine =
    after.machine === undefined || before.machine === undefined
      ? undefined
      : (after.machine - before.machine) / seconds
  return { processes, machine, cpus: cpus().length }
}

/** `edge-2` is another worker, `redis-node-3` another Redis. */
export function kindOf(process: string): string {
  const kind = process.split('-')[0]!
  return kind === 'edge' ? 'worker' : kind
}

/** The CPUs in use by kind of process, and how many processes of it there are. */
export function byKind({ processes }: CpuUse): Map<string, { cpus: number; processes: number }> {
  const kinds = new Map<string, { cpus: number; processes: number }>()
  for (const [name, cpus] of Object.entries(processes)) {
    const kind = kinds.get(kindOf(name)) ?? { cpus: 0, processes: 0 }
    kinds.set(kindOf(name), { cpus: kind.cpus + cpus, processes: kind.processes + 1 })
  }
  return kinds
}

/** The part of a whole from which on it counts as used up. */
const atLimit = 0.9
/** Work of others that makes a figure one of a busy machine. */
const othersWorthTelling = 0.1

/**
 * What was at its limit, with the numbers: the machine, when all its CPUs were in use (more processes then can't be
 * faster); else a process that had one CPU for itself, which is all that one of ours can use; else nothing, and
 * the claims waited for each other's answers.
 */
export function boundBy(use: CpuUse): string {
  const { processes, machine, cpus } = use
  const names = Object.entries(processes).sort(([, a], [, b]) => b - a)
  if (machine === undefined) return 'not known: this system does not tell who uses its CPUs'
  const ours = names.reduce((sum, [, used]) => sum + used, 0)
  const others = Math.max(0, machine - ours)
  const shares = [...byKind(use)]
    .sort(([, a], [, b]) => b.cpus - a.cpus)
    .map(([kind, { cpus: used }]) => `${kind} ${used.toFixed(2)}`)
  const noise = others > othersWorthTelling ? `, others on this machine ${others.toFixed(2)}` : ''
  const detail = `${machine.toFixed(2)} of ${cpus} CPUs in use: ${shares.join(', ')}${noise}`
  if (machine >= atLimit * cpus) return `the machine (${detail})`
  // Postgres is many processes: its share is of several CPUs.
  const busiest = names.find(([name]) => kindOf(name) !== 'postgres')
  if (busiest !== undefined && busiest[1] >= atLimit) return `one ${kindOf(busiest[0])} process (${detail})`
  return `none: waiting (${detail})`
}
