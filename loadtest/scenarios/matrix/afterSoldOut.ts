import { setTimeout as pause } from 'node:timers/promises'
import { steady } from '../arrivals.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atLeast, atMost, latency } from '../verdict.ts'

const quota = 200

export const afterSoldOut: Scenario = {
  name: 'after-sold-out',
  title: titles['after-sold-out'],
  about:
    'The stock is gone, and people go on coming at the rate of an opening. Watched: what a SOLD_OUT costs in time ' +
    'and in Redis commands.',
  share: 0.9,
  async run(world, { seconds, perSecond, seed }) {
    await world.open([{ quota }])
    const wish = { seconds, curve: steady, campaigns: 1, zipf: 1 }
    const first = await world.gatherBefore({
      ...wish,
      seed,
      seconds: 1,
      perSecond: quota * 1.5,
      kinds: { once: 1 },
    })
    const crowd = await world.gather({
      ...wish,
      seed: seed + 1,
      perSecond,
      kinds: { once: 0.9, repeater: 0.08, bot: 0.02 },
      presses: 3,
    })
    await world.flood(first)
    // The gate has learnt it, and who holds a coupon.
    await pause(1_000)
    await world.begin()
    await world.flood(crowd)
    world.figures['acceptances_before'] = first.accepted.length
  },
  judge: (measured) => {
    const { figures = {}, codes, offered } = measured
    return [
      atMost('Redis commands of the edge a request', figures['edge_commands_per_request'], 0.05),
      atMost('refuse p99', latency(measured, 'refuse', 'p99_ms'), 50, 'ms'),
      atLeast(
        'answered SOLD_OUT, of all requests',
        ((codes['SOLD_OUT'] ?? 0) / Math.max(1, offered)) * 100,
        95,
        '%',
      ),
      atMost('accepted after the end', codes['ACCEPTED'] ?? 0, 0),
      atLeast('coupons that were given before', figures['acceptances_before'], quota),
    ]
  },
}
