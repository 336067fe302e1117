import { setTimeout as pause } from 'node:timers/promises'
import { limits } from '../../../schema/limits.ts'
import { steady } from '../arrivals.ts'
import { lastToldAfter } from '../deliveries.ts'
import { titles } from '../names.ts'
import type { Load, Scenario } from '../scenario.ts'
import { atLeast, atMost, latency } from '../verdict.ts'

/** Part of the run in which Postgres is slow. */
const slowFrom = 0.08
const slowPart = 0.72
/** The stock's row is held so long, then free for a moment: a batch or two get through each time. */
const heldMs = 4_000
const freeMs = 30

/** Only a drain that is slow for longer than this makes the gate refuse (DESIGN §4: lease). */
const pressureAfterMs = limits.oldestUnsettledMaxMs + limits.leaseMs

const slowMs = ({ seconds }: Load) => seconds * 1000 * slowPart

export const slowDrain: Scenario = {
  name: 'slow-drain',
  title: titles['slow-drain'],
  about:
    'Postgres gives the drain its row only now and then, for most of the run. Watched: how far the backlog and its ' +
    'age grow, when the lease makes the gate say BUSY, and how soon all is delivered afterwards.',
  share: 0.35,
  async run(world, load) {
    const { seconds, perSecond, seed } = load
    const [campaign] = await world.open([
      { quota: Math.min(100_000, Math.max(200, Math.round(perSecond * seconds * 1.2))) },
    ])
    const crowd = await world.gather({
      seed,
      seconds,
      perSecond,
      curve: steady,
      kinds: { once: 0.9, poller: 0.05, listener: 0.05 },
      campaigns: 1,
      zipf: 1,
    })
    await world.begin()
    const slowness = async () => {
      await pause(seconds * 1000 * slowFrom)
      world.mark('Postgres slow')
      const end = performance.now() + slowMs(load)
      while (performance.now() < end) {
        const hold = Math.min(heldMs, end - performance.now())
        await world.sql.begin(async (tx) => {
          await tx`SELECT 1 FROM campaign_stock WHERE campaign_id = ${campaign!.id} FOR UPDATE`
          await pause(hold)
        })
        await pause(freeMs)
      }
      world.mark('Postgres free')
      const freeAtMs = Date.now()
      world.look = (deliveries) => ({ recovery_ms: lastToldAfter(deliveries, freeAtMs) })
    }
    await Promise.all([slowness(), world.flood(crowd)])
    world.figures['slow_ms'] = slowMs(load)
    world.settings['slow for, ms'] = Math.round(slowMs(load))
  },
  judge: (measured, load) => {
    const { timeline, codes } = measured
    const most = (name: string) =>
      Math.max(...(timeline.series[name] ?? []).map((value) => value ?? Number.NEGATIVE_INFINITY))
    const isLong = slowMs(load) > pressureAfterMs + 2_000
    const entriesOfLease = 2 * limits.leaseMs
    return [
      atLeast('backlog while it was slow, entries', most('backlog'), 1),
      atMost('backlog at most, entries', most('backlog'), limits.drainLagEntriesMax + entriesOfLease),
      atMost(
        'accepted → told at most',
        latency(measured, 'deliver', 'max_ms'),
        pressureAfterMs + 15_000,
        'ms',
      ),
      atMost(
        'from its end to the last of those accepted before told',
        measured.figures?.['recovery_ms'],
        30_000,
        'ms',
      ),
      atMost('accept p99', latency(measured, 'accept', 'p99_ms'), 90, 'ms'),
      // In a short form the backlog never gets old enough.
      ...(isLong ? [atLeast('BUSY was said for lack of a lease', codes['BUSY'], 1)] : []),
    ]
  },
}
