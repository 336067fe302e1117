import { setTimeout as sleep } from 'node:timers/promises'
import { limits } from '../../../schema/limits.ts'
import { causeOf } from '../../claim/failures.ts'
import { backOff, isWorthTelling, makeAlarm, within } from '../../claim/patience.ts'
import type { Deps, Running } from '../../deps.ts'

/** What one kind of delivery does; the courier does the rest: when, how many at once, and what if it fails. */
export interface Round<Due> {
  name: string
  /**
   * Takes deliveries that are due, for `limits.deliveryLeaseMs`: whoever dies with them leaves them to others.
   * @param busy how many are on their way, by `keyOf`.
   */
  take(free: number, busy: ReadonlyMap<string, number>): Promise<Due[]>
  keyOf(due: Due): string
  /** Delivers it, and records what came of it. @throws only when that can't be recorded. */
  deliver(due: Due): Promise<void>
  /** Removes what is too old; called about once a minute. */
  sweep(): Promise<void>
}

/** Deliveries that end at about the same time are followed by one look for more. */
const pauseMs = 20
const sweepEveryMs = 60_000
const stopMs = 5_000

export function startCourier<Due>(deps: Pick<Deps, 'log'>, round: Round<Due>): Running {
  const log = deps.log.child({ part: round.name })
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  const busy = new Map<string, number>()
  const flying = new Set<Promise<void>>()
  let sweepDueAt = 0

  function dispatch(due: Due): void {
    const key = round.keyOf(due)
    busy.set(key, (busy.get(key) ?? 0) + 1)
    const flight = round
      .deliver(due)
      // Taken again when its lease is over: it may be delivered twice, never not at all.
      .catch((error) => log.warn({ cause: causeOf(error) }, 'a delivery’s outcome could not be recorded'))
      .finally(() => {
        flying.delete(flight)
        const left = busy.get(key)! - 1
        if (left === 0) busy.delete(key)
        else busy.set(key, left)
        alarm.wake()
      })
    flying.add(flight)
  }

  async function step(): Promise<number> {
    if (performance.now() >= sweepDueAt) {
      await round.sweep()
      sweepDueAt = performance.now() + sweepEveryMs
    }
    const free = limits.deliveriesInFlightMax - flying.size
    const taken = free > 0 ? await round.take(free, busy) : []
    for (const due of taken) dispatch(due)
    return taken.length
  }

  async function run(): Promise<void> {
    for (let failed = 0; !abort.signal.aborted; ) {
      try {
        const taken = await step()
        failed = 0
        if (taken === 0) await alarm.wait(limits.deliveryPollMs)
        else await sleep(pauseMs, undefined, { signal: abort.signal }).catch(() => undefined)
      } catch (error) {
        failed += 1
        if (isWorthTelling(failed))
          log.warn({ cause: causeOf(error), times: failed }, 'deliveries can’t be looked for at the moment')
        await backOff(failed, abort.signal).catch(() => undefined)
      }
    }
    await Promise.all(flying)
  }

  const running = run()
  return {
    async stop() {
      abort.abort()
      await within(running, stopMs, 'ending the deliveries').catch((error) =>
        log.warn({ cause: causeOf(error) }, 'deliveries are left to their leases'),
      )
    },
  }
}
