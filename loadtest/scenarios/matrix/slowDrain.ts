import { setTimeout as pause } from 'node:timers/promises'
import { limits } from '../../../schema/limits.ts'
import { steady } from '../arrivals.ts'
import { lastToldAfter } from '../deliveries.ts'
import { titles } from '../names.ts'
import type { Load, Scenario } from '../scenario.ts'
import { atLeast, atMost, latency } from '../verdict.ts'

/** Parts of the run: first the row is given only now and then, and then not at all. */
const slowFrom = 0.08
const stuckFrom = 0.12
const freeFrom = 0.82
/** While it is only slow, the row is held so long, and then free for a moment: a batch or two get through. */
const heldMs = 600
const freeMs = 30

/** Only a drain that is slow for longer than this makes the gate refuse (DESIGN §4: lease). */
const pressureAfterMs = limits.oldestUnsettledMaxMs + limits.leaseMs

const stuckMs = ({ seconds }: Load) => seconds * 1000 * (freeFrom - stuckFrom)

export const slowDrain: Scenario = {
  name: 'slow-drain',
  title: titles['slow-drain'],
  about:
    'Postgres gives the drain its row only now and then, and then for most of the run not at all. Watched: how far the backlog and its ' +
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
      const hold = (ms: number) =>
        world.sql.begin(async (tx) => {
          await tx`SELECT 1 FROM campaign_stock WHERE campaign_id = ${campaign!.id} FOR UPDATE`
          await pause(ms)
        })
      world.mark('Postgres slow')
      const stuckAt = performance.now() + seconds * 1000 * (stuckFrom - slowFrom)
      while (performance.now() < stuckAt) {
        await hold(Math.min(heldMs, Math.max(1, stuckAt - performance.now())))
        await pause(freeMs)
      }
      world.mark('Postgres stuck')
      await hold(stuckMs(load))
      world.mark('Postgres free')
      const freeAtMs = Date.now()
      world.figures['accept_p99_until_free_ms'] = crowd.acceptP99(freeAtMs) ?? 0
      world.look = (deliveries) => ({ recovery_ms: lastToldAfter(deliveries, freeAtMs) })
    }
    await Promise.all([slowness(), world.flood(crowd)])
    world.settings['Postgres stuck for, ms'] = Math.round(stuckMs(load))
  },
  judge: (measured, load) => {
    const { timeline, codes } = measured
    const most = (name: string) =>
      Math.max(...(timeline.series[name] ?? []).map((value) => value ?? Number.NEGATIVE_INFINITY))
    const isLong = stuckMs(load) > pressureAfterMs + 2_000
    const entriesOfLease = 2 * limits.leaseMs
    return [
      atLeast('backlog while it was slow, entries', most('backlog'), 1),
      atMost('backlog at most, entries', most('backlog'), limits.drainLagEntriesMax + entriesOfLease),
      atMost('accepted → told at most', latency(measured, 'deliver', 'max_ms'), stuckMs(load) + 15_000, 'ms'),
      atMost(
        'from its end to the last of those accepted before told',
        measured.figures?.['recovery_ms'],
        30_000,
        'ms',
      ),
      // Afterwards everybody who heard BUSY comes back at once: that is another crowd than the wished one.
      atMost('accept p99 until it ends', measured.figures?.['accept_p99_until_free_ms'], 90, 'ms'),
      // In a short form the backlog never gets old enough.
      ...(isLong ? [atLeast('BUSY was said for lack of a lease', codes['BUSY'], 1)] : []),
    ]
  },
}
