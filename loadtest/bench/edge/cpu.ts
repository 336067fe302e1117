import { readdirSync, readFileSync } from 'node:fs'

/**
 * CPU seconds that a process and those it started have used; undefined where the system doesn't tell (no /proc).
 * A worker's runtime is a child of the process that the stack started.
 */
export function cpuSeconds(pid: number): number | undefined {
  if (process.platform !== 'linux') return undefined
  const stats = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (statOf(name) ?? []) : []))
  const family = new Set([pid])
  // Parents are older than their children, but numbers wrap: repeat until nobody new joins.
  for (let before = 0; before < family.size; ) {
    before = family.size
    for (const { pid: child, parent } of stats) if (family.has(parent)) family.add(child)
  }
  let ticks = 0
  for (const stat of stats) if (family.has(stat.pid)) ticks += stat.ticks
  return ticks / ticksPerSecond
}

/** USER_HZ is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100

function statOf(name: string): { pid: number; parent: number; ticks: number } | undefined {
  try {
    const text = readFileSync(`/proc/${name}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { pid: Number(name), parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }
  } catch {
    // Ended since the folder was listed.
    return undefined
  }
}
