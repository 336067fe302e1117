import type { StackOptions } from '../../stack/stack.ts'
import type { World } from './world.ts'

/** A fault with real processes, and what must hold through it. */
export interface Drill {
  name: string
  /** What happens, and what must come of it. */
  about: string
  /** Acceptances may be lost with Redis: their receipts are presented afterwards (CL15). */
  losesAcceptances?: boolean
  /** What this machine lacks for it; undefined: nothing. */
  lacks?(): string | undefined
  /** Of its stack. */
  stack?: Partial<StackOptions>
  /** Started before the stack and ended after it, where the stack has to run through it. */
  prepare?(dir: string): Promise<Prepared>
  /**
   * Does it, while people claim. Its own findings are violations; the audit comes afterwards.
   * @returns figures for the report
   */
  run(world: World): Promise<Record<string, number>>
}

export interface Prepared {
  stack: Partial<StackOptions>
  /** Handed to `run` by World. */
  tools: Record<string, unknown>
  close(): Promise<void>
}

export interface DrillResult {
  name: string
  about: string
  passed: boolean
  violations: string[]
  /** Why it could not run on this machine; then it has neither passed nor failed. */
  skipped?: string
  figures: Record<string, number>
}
