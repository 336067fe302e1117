import type { StackOptions } from '../../stack/stack.ts'
import type { Criterion } from '../record/record.ts'
import type { ScenarioName } from './names.ts'
import type { Measured } from './verdict.ts'
import type { World } from './world.ts'

/** One row of A4's load matrix (§15.2). */
export interface Scenario {
  readonly name: ScenarioName
  readonly title: string
  /** What it does, and what it is watched for. */
  readonly about: string
  /** Its peak rate, as a part of what a rehearsal shows the system to take. */
  readonly share: number
  /** Redis loses acceptances: their receipts are presented afterwards (CL15). */
  readonly losesAcceptances?: boolean
  /** Of its stack. */
  readonly stack?: Partial<StackOptions>
  /** Started before the stack and ended after it, where the stack has to run through it. */
  prepare?(dir: string, home: string): Promise<Prepared>
  /** Opens campaigns, has people come, and does to the system what the scenario is about. */
  run(world: World, load: Load): Promise<void>
  /** Its own criteria, from what was found and nothing else. */
  judge(measured: Measured, load: Load): Criterion[]
}

export interface Prepared {
  stack: Partial<StackOptions>
  /** Handed to `run` by World. */
  tools: Record<string, unknown>
  close(): Promise<void>
}

export interface Load {
  /** So long people come. */
  seconds: number
  /** Requests a second at the peak. */
  perSecond: number
  /** Claims a second that the rehearsal showed; undefined when the rate was given. */
  capacity: number | undefined
  seed: number
}
