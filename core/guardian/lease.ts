import { limits } from '../../schema/limits.ts'

/** Why a bucket gets no lease, for logs and metrics. */
export type Withheld =
  | 'redis_evicts'
  | 'clocks_apart'
  | 'redis_incarnation_changed'
  | 'not_checked_yet'
  | 'gate_missing'
  | 'redis_forgot'
  | 'backlog'
  | 'identity_broken'
  | 'drain_lag'
  | 'oldest_unsettled'

/** A loss of Redis that the ledger can make good. */
export type Loss = Extract<Withheld, 'gate_missing' | 'redis_forgot'>

export function isRecoverable(why: Withheld): why is Loss {
  return why === 'gate_missing' || why === 'redis_forgot'
}

/** For people: what it means, and what ends it. */
export const withheldWords: Record<Withheld | 'postgres_away' | 'redis_away', string> = {
  redis_evicts: 'Redis may throw data away: set its maxmemory-policy to noeviction.',
  clocks_apart:
    'The clocks of Redis and of this process differ: claims would be decided at a wrong time. Correct the one that is wrong.',
  redis_incarnation_changed:
    'Redis restarted or failed over: its state is being compared with the ledger; wait.',
  not_checked_yet: 'This process has just begun to watch it and compares it with the ledger; wait.',
  gate_missing: 'Redis lost it: it is rebuilt from the ledger as soon as its log is drained.',
  redis_forgot: 'Redis is behind the ledger: it is rebuilt from the ledger as soon as its log is drained.',
  backlog: 'Too much waits in its log to compare it with the ledger: the drain must get on first.',
  identity_broken:
    'Redis has more than the ledger can account for: look for the cause, then rebuild it by npm run ops -- rebuild.',
  drain_lag: 'Too many accepted claims wait to be delivered: see whether the drain runs.',
  oldest_unsettled: 'An accepted claim waits too long for its delivery: see whether the drain runs.',
  postgres_away: 'Postgres does not answer.',
  redis_away: 'Redis does not answer.',
}

/** What is known of a bucket at the moment of the decision. */
export interface Condition {
  evictionPolicy: string | undefined
  /** Redis' clock less ours, ms. */
  clockAheadMs: number
  /** The last check of this bucket in this life of Redis: true when it held; undefined before the first. */
  finding: true | 'gate_missing' | 'redis_forgot' | 'backlog' | 'identity_broken' | undefined
  /** This process has seen an earlier life of Redis. */
  livedBefore: boolean
  /** Entries in the log; undefined when there is no log, though the gate was primed. */
  entries: number | undefined
  /** Age of the oldest of them, ms. */
  oldestMs: number
}

/** Undefined: the lease may be renewed (DESIGN §4). The first reason that fits, worst first. */
export function reasonToWithhold(condition: Condition): Withheld | undefined {
  const { evictionPolicy, clockAheadMs, finding, livedBefore, entries, oldestMs } = condition
  if (evictionPolicy !== undefined && evictionPolicy !== 'noeviction') return 'redis_evicts'
  if (areApart(clockAheadMs)) return 'clocks_apart'
  if (finding === undefined) return livedBefore ? 'redis_incarnation_changed' : 'not_checked_yet'
  if (finding !== true) return finding
  if (entries === undefined) return 'gate_missing'
  if (entries > limits.drainLagEntriesMax) return 'drain_lag'
  if (oldestMs > limits.oldestUnsettledMaxMs) return 'oldest_unsettled'
  return undefined
}

/**
 * Whether the clock that decides windows is too far from ours. Nobody here knows which of them is right, so nothing
 * is accepted until they agree.
 */
export function areApart(clockAheadMs: number): boolean {
  return Math.abs(clockAheadMs) > limits.clockLeewayMs
}
