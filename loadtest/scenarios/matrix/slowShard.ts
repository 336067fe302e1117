import { setTimeout as pause } from 'node:timers/promises'
import { steady } from '../arrivals.ts'
import { lastToldAfter } from '../deliveries.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atLeast, atMost, latency, none } from '../verdict.ts'

const partition = 'claims_3'
const slowFrom = 0.2
const slowPart = 0.5
/** Writes to the partition wait for so long, then pass for as long. */
const heldMs = 700
const freeMs = 300

export const slowShard: Scenario = {
  name: 'slow-shard',
  title: titles['slow-shard'],
  about:
    'Writes to one of the eight hash partitions of the claims wait, in pulses, for half of the run. Watched: what the ' +
    'users of the other seven notice of it, and how soon everything is as before. A batch of the drain is one ' +
    'transaction over all partitions: it takes as long as the slowest.',
  share: 0.3,
  async run(world, { seconds, perSecond, seed }) {
    await world.open([{ quota: Math.min(100_000, Math.max(200, Math.round(perSecond * seconds * 1.2))) }])
    const crowd = await world.gather({
      seed,
      seconds,
      perSecond,
      curve: steady,
      kinds: { once: 0.95, listener: 0.05 },
      campaigns: 1,
      zipf: 1,
    })
    await world.begin()
    const slowness = async () => {
      await pause(seconds * 1000 * slowFrom)
      world.mark('one partition slow')
      const fromMs = Date.now()
      const end = performance.now() + seconds * 1000 * slowPart
      while (performance.now() < end) {
        await world.sql.begin(async (tx) => {
          await tx.unsafe(`LOCK TABLE ${partition} IN SHARE MODE`)
          await pause(heldMs)
        })
        await pause(freeMs)
      }
      const untilMs = Date.now()
      world.look = (deliveries) => ({ recovery_ms: lastToldAfter(deliveries, untilMs) })
      world.groupOf = ({ partition: of, acceptedAtMs }) => {
        if (acceptedAtMs < fromMs || acceptedAtMs >= untilMs) return 'before and after'
        return of === partition ? 'slow partition' : 'other partitions'
      }
      world.mark('as before')
    }
    await Promise.all([slowness(), world.flood(crowd)])
  },
  judge: (measured) => [
    atLeast(
      'users of the slow partition',
      measured.latencies.find(({ name }) => name === 'deliver slow partition')?.count,
      1,
    ),
    atLeast(
      'users of the others',
      measured.latencies.find(({ name }) => name === 'deliver other partitions')?.count,
      1,
    ),
    atMost('accept p99', latency(measured, 'accept', 'p99_ms'), 90, 'ms'),
    atMost(
      'accepted → told p99, other partitions',
      latency(measured, 'deliver other partitions', 'p99_ms'),
      heldMs + 1_000,
      'ms',
    ),
    atMost(
      'accepted → told p99, slow partition',
      latency(measured, 'deliver slow partition', 'p99_ms'),
      heldMs + 2_000,
      'ms',
    ),
    atMost(
      'accepted → told p99, before and after',
      latency(measured, 'deliver before and after', 'p99_ms'),
      1_000,
      'ms',
    ),
    atMost(
      'from its end to the last of those accepted before told',
      measured.figures?.['recovery_ms'],
      5_000,
      'ms',
    ),
    none('claim refused for it', measured.codes['BUSY'] ?? 0),
  ],
}
