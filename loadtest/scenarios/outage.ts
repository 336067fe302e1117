import type { Criterion } from '../record/record.ts'
import { steady } from './arrivals.ts'
import type { Crowd } from './crowd.ts'
import type { Load } from './scenario.ts'
import { atLeast, atMost, latency, type Measured, none } from './verdict.ts'
import type { World } from './world.ts'

/** What the losses of Redis have in common: who comes, and what is asked of the system. */

/** A steady stream of people, stock for all of them. */
export async function outageCrowd(world: World, { seconds, perSecond, seed }: Load): Promise<Crowd> {
  await world.open([{ quota: Math.min(100_000, Math.max(200, Math.round(perSecond * seconds * 1.1))) }])
  const crowd = await world.gather({
    seed,
    seconds,
    perSecond,
    curve: steady,
    kinds: { once: 0.85, repeater: 0.05, poller: 0.05, listener: 0.05 },
    campaigns: 1,
    zipf: 1,
    presses: 3,
  })
  await world.begin()
  return crowd
}

export interface Outage {
  goneAtMs: number
  backAtMs: number
}

/** Calls that Redis had answered already when it was killed. */
const inFlightMs = 50

export function noteOutage(world: World, crowd: Crowd, { goneAtMs, backAtMs }: Outage): void {
  const times = crowd.accepted.map(({ acceptedAtMs }) => acceptedAtMs)
  const after = times.filter((at) => at >= backAtMs)
  const before = times.filter((at) => at <= goneAtMs)
  Object.assign(world.figures, {
    accepted_while_away: times.filter((at) => at > goneAtMs + inFlightMs && at < backAtMs).length,
    accepted_before: before.length,
    accepted_after: after.length,
    away_ms: backAtMs - goneAtMs,
    // Counted only where there were acceptances again.
    ...(after.length === 0 ? {} : { back_after_ms: Math.min(...after) - backAtMs }),
    // A connection that broke is the client's word for "unknown": it comes again with the same key.
    unanswered_allowed: world.tally.codes['no answer'] ?? 0,
  })
}

export function judgeOutage(measured: Measured, backWithinMs: number): Criterion[] {
  const { figures = {} } = measured
  return [
    atLeast('accepted before it', figures['accepted_before'], 1),
    none('acceptance while Redis was away', figures['accepted_while_away']),
    atMost('from Redis’ return to the first acceptance', figures['back_after_ms'], backWithinMs, 'ms'),
    atLeast('accepted after it', figures['accepted_after'], 1),
    none('listener or poller left without the result', figures['watchers_not_told']),
    // While it is away, the gate must say so at once, or at its deadline at the latest.
    atMost('answered “come again” p99', latency(measured, 'retry later', 'p99_ms') ?? 0, 4_000, 'ms'),
  ]
}
