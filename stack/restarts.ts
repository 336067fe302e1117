import { setTimeout as pause } from 'node:timers/promises'
import type { UnexpectedEnd } from './part.ts'
import type { PartName, Stack } from './stack.ts'

const WINDOW_MS = 60_000
const RESTARTS_MAX = 5

export interface RestartOptions {
  stack: Stack
  say(line: string): void
  /** A part runs again, under another process number. */
  onRestarted(name: string): void
  /** A part keeps ending: restarting it is no cure. */
  onGivenUp(name: string): void
}

/**
 * Brings parts back that ended without being asked to, on the address they had: the first time at once, then
 * after a growing pause, and at most five times a minute each.
 */
export function makeRestarter(options: RestartOptions): (end: UnexpectedEnd) => Promise<void> {
  const { stack, say } = options
  const times = new Map<string, number[]>()
  return async (end) => {
    const { name, exit } = end
    const recent = (times.get(name) ?? []).filter((at) => performance.now() - at < WINDOW_MS)
    say(
      `${name} ended unexpectedly (${exit.signal ?? `exit code ${exit.code}`}). End of its log:\n${end.tail}`,
    )
    if (recent.length >= RESTARTS_MAX) {
      options.onGivenUp(name)
      return
    }
    times.set(name, [...recent, performance.now()])
    await pause(recent.length * 1_000)
    try {
      await stack.part(name as PartName).start()
      say(`${name} runs again`)
      options.onRestarted(name)
    } catch (error) {
      say((error as Error).message)
      options.onGivenUp(name)
    }
  }
}
