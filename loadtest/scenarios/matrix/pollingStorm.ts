import { steady } from '../arrivals.ts'
import { untilAtRest } from '../ledgerLooks.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { storm } from '../storm.ts'
import { atLeast, atMost, latency } from '../verdict.ts'

/** Questions for each claim. */
const questionsPerClaim = 10
/** Below this, a p99 is the machine's own noise. */
const noiseMs = 100

export const pollingStorm: Scenario = {
  name: 'polling-storm',
  title: titles['polling-storm'],
  about:
    'The same crowd twice: first alone, then with ten questions for a claim’s status to each claim. Watched: whether ' +
    'reading holds up giving.',
  share: 0.03,
  async run(world, { seconds, perSecond, seed }) {
    const half = seconds / 2
    const quota = Math.max(100, Math.round(perSecond * half * 1.2))
    const [calm, stormy] = await world.open([{ quota }, { quota }])
    const wish = {
      ...{ seconds: half, perSecond, curve: steady, campaigns: 1, zipf: 1 },
      kinds: { once: 0.9, listener: 0.1 },
    }
    const first = await world.gather({ ...wish, seed }, [calm!])
    const second = await world.gather({ ...wish, seed: seed + 1 }, [stormy!])
    await world.begin()
    world.mark('claims alone')
    await world.flood(first)
    await untilAtRest(world.redis, world.sql, [calm!], 30_000)
    world.mark('claims and questions')
    const [asked] = await Promise.all([
      storm(world, second, perSecond * questionsPerClaim, half),
      world.flood(second),
    ])
    world.figures['questions_per_claim'] = asked / Math.max(1, second.accepted.length)
    world.figures['calm_accept_p99_ms'] = first.acceptP99() ?? 0
    world.figures['storm_accept_p99_ms'] = second.acceptP99() ?? 0
    world.groupOf = ({ campaignId }) => (campaignId === calm!.id ? 'calm' : 'storm')
  },
  judge: (measured) => {
    const calm = latency(measured, 'deliver calm', 'p99_ms')
    const stormy = latency(measured, 'deliver storm', 'p99_ms')
    const ratio = calm === undefined || stormy === undefined ? undefined : stormy / Math.max(calm, noiseMs)
    return [
      atLeast('questions to a claim', measured.figures?.['questions_per_claim'], questionsPerClaim * 0.8),
      atMost(`accepted → told p99 in the storm, to that before it or ${noiseMs} ms`, ratio, 3, '×'),
      atMost('accepted → told p99 in the storm', stormy, 1_000, 'ms'),
      atMost('accept p99 in the storm', measured.figures?.['storm_accept_p99_ms'], 90, 'ms'),
      atMost('question p99', latency(measured, 'poll', 'p99_ms'), 500, 'ms'),
    ]
  },
}
