import { steady } from '../arrivals.ts'
import { readBuckets } from '../ledgerLooks.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atLeast, atMost, latency, none } from '../verdict.ts'

const bucketCount = 8
/** Of the requests of the whole run: it sells out with a good part of them still to come. */
const quotaPart = 0.55

export const buckets: Scenario = {
  name: 'buckets',
  title: titles.buckets,
  about:
    'One campaign in eight buckets sells out. Watched: how unevenly they empty, how long the last fragments take to ' +
    'find their takers, that the total is kept, and that nobody hears SOLD_OUT while another bucket has stock.',
  share: 0.4,
  async run(world, { seconds, perSecond, seed }) {
    const quota = Math.max(80, Math.round(perSecond * seconds * quotaPart))
    const [campaign] = await world.open([{ quota, bucketCount }])
    const crowd = await world.gather({
      seed,
      seconds,
      perSecond,
      curve: steady,
      kinds: { once: 0.97, repeater: 0.03 },
      campaigns: 1,
      zipf: 1,
      presses: 3,
    })
    await world.begin()
    await world.flood(crowd)
    const found = await readBuckets(world.redis, campaign!)
    const accepted = found.map((bucket) => bucket.accepted)
    const mean = accepted.reduce((sum, n) => sum + n, 0) / bucketCount
    const times = crowd.accepted.map(({ acceptedAtMs }) => acceptedAtMs).sort((a, b) => a - b)
    const soldOutAtMs = crowd.soldOutAtMs.get(campaign!.id)
    Object.assign(world.figures, {
      left_at_the_end: found.reduce((sum, { remaining }) => sum + remaining, 0),
      accepted_per_bucket: mean,
      skew_percent: mean === 0 ? 0 : ((Math.max(...accepted) - Math.min(...accepted)) / mean) * 100,
      // Nobody returns stock here, so an acceptance after somebody heard SOLD_OUT had stock all the time.
      accepted_after_sold_out: soldOutAtMs === undefined ? 0 : times.filter((at) => at > soldOutAtMs).length,
      tail_ms: (times.at(-1) ?? 0) - (times[Math.floor(times.length * 0.98)] ?? 0),
      busy_after_the_last: crowd.busyAtMs.filter((at) => at > (times.at(-1) ?? 0)).length,
      sold_out_told: crowd.soldOutAtMs.size,
      ...(soldOutAtMs === undefined ? {} : { known_after_ms: soldOutAtMs - (times.at(-1) ?? 0) }),
    })
  },
  judge: (measured) => {
    const { figures = {} } = measured
    // Users fall into buckets by a hash: of few, some have many more than others.
    const skewMost = 30 + 400 / Math.sqrt(Math.max(1, figures['accepted_per_bucket'] ?? 1))
    return [
      none('coupon left at the end', figures['left_at_the_end']),
      none('acceptance after somebody heard SOLD_OUT', figures['accepted_after_sold_out']),
      atLeast('campaigns of which SOLD_OUT was told', figures['sold_out_told'], 1),
      atMost(
        'skew between buckets (most − fewest, of the mean)',
        figures['skew_percent'],
        Math.round(skewMost),
        '%',
      ),
      atMost('the last 2 % of coupons took', figures['tail_ms'], 6_000, 'ms'),
      atMost('from the last coupon to the first SOLD_OUT', figures['known_after_ms'], 5_000, 'ms'),
      atMost('accept p99', latency(measured, 'accept', 'p99_ms'), 90, 'ms'),
    ]
  },
}
