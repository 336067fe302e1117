import type { Reply } from '../traffic/client.ts'
import type { Found } from './auditor.ts'
import type { Heard, Press } from './crowd.ts'

/**
 * What is killed: the process that answers claims, the one that writes coupons, or the store, as by a power cut that
 * takes what `everysec` had not synced.
 */
export type KillKind = 'service' | 'consumer' | 'store'

/** A design that takes part in the comparison: a peer on the common frame, or ours as a whole stack. */
export interface Contestant {
  readonly name: string
  readonly about: string
  /** What a claim passes through here, where it is more or less than with the others. */
  readonly path: string
  readonly kinds: readonly KillKind[]
  /** A fresh campaign of `quota` coupons with so many users, each with a first and a second press ready. */
  open(quota: number, users: number): Promise<Opened>
  /** Ends it by SIGKILL. @returns how to start it again */
  kill(kind: KillKind): Promise<() => Promise<void>>
  stop(): Promise<void>
}

export interface Opened {
  readonly url: string
  readonly presses: readonly Press[]
  /** Of the same users under another key. */
  readonly others: readonly Press[]
  hear(press: Press, reply: Reply): Heard
  /** Until nothing is under way any more. */
  rest(): Promise<void>
  /** What exists, and who of the promised was told otherwise since. */
  look(
    promised: ReadonlySet<string>,
  ): Promise<Pick<Found, 'coupons' | 'remaining'> & { withdrawn: Set<string> }>
  /** Ends what this campaign alone needed. */
  close(): Promise<void>
}
