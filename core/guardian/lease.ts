import { limits } from '../../schema/limits.ts'

/** Why a bucket gets no lease, for logs and metrics. */
export type Withheld =
  | 'redis_evicts'
  | 'redis_incarnation_changed'
  | 'not_checked_yet'
  | 'gate_missing'
  | 'backlog'
  | 'identity_broken'
  | 'drain_lag'
  | 'oldest_unsettled'

/** What is known of a bucket at the moment of the decision. */
export interface Condition {
  evictionPolicy: string | undefined
  /** The last check of this bucket in this life of Redis: true when it held; undefined before the first. */
  finding: true | 'gate_missing' | 'backlog' | 'identity_broken' | undefined
  /** This process has seen an earlier life of Redis. */
  livedBefore: boolean
  /** Entries in the log; undefined when there is no log, though the gate was primed. */
  entries: number | undefined
  /** Age of the oldest of them, ms. */
  oldestMs: number
}

/** Undefined: the lease may be renewed (DESIGN §4). The first reason that fits, worst first. */
export function reasonToWithhold(condition: Condition): Withheld | undefined {
  const { evictionPolicy, finding, livedBefore, entries, oldestMs } = condition
  if (evictionPolicy !== undefined && evictionPolicy !== 'noeviction') return 'redis_evicts'
  if (finding === undefined) return livedBefore ? 'redis_incarnation_changed' : 'not_checked_yet'
  if (finding !== true) return finding
  if (entries === undefined) return 'gate_missing'
  if (entries > limits.drainLagEntriesMax) return 'drain_lag'
  if (oldestMs > limits.oldestUnsettledMaxMs) return 'oldest_unsettled'
  return undefined
}
