import { opening } from '../arrivals.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atMost, latency, none } from '../verdict.ts'

const campaigns = 8
/** Of all people that are expected: the wanted campaigns sell out, the others don't. */
const quotaPart = 0.35
/** Before the opening everybody gets a token: some time, and more for each that is expected. */
const leadMs = 1_500
const leadMsPerRequest = 0.1

export const openingFlood: Scenario = {
  name: 'opening-flood',
  title: titles['opening-flood'],
  about:
    'Eight campaigns of different popularity open at one instant: people press before it, at it, again and again, ' +
    'late; bots come too. Watched: latency of acceptance and refusal, the script’s percentiles in Redis, delivery.',
  // Of claims alone on one campaign. This crowd's request takes 1.2 ms of two cores (tokens, eight campaigns, streams),
  // the rehearsal's 0.54: at 0.7 of the rehearsal the machine would be asked for 1.6 times what it has.
  share: 0.3,
  async run(world, { seconds, perSecond, seed }) {
    const curve = opening(0.3, 0.15, 0.2)
    const quota = Math.max(20, Math.round((perSecond * seconds * 0.55 * quotaPart) / campaigns))
    const opened = await world.open(
      Array.from({ length: campaigns }, () => ({
        quota,
        startsInMs: leadMs + perSecond * seconds * leadMsPerRequest,
      })),
    )
    const crowd = await world.gather({
      seed,
      seconds,
      perSecond,
      curve,
      kinds: {
        once: 0.56,
        repeater: 0.12,
        fanatic: 0.001,
        double_tapper: 0.06,
        late: 0.1,
        poller: 0.07,
        listener: 0.059,
        bot: 0.03,
      },
      campaigns,
      zipf: 1.1,
      early: 0.02,
      presses: 4,
    })
    const opensAtMs = Math.max(Date.now() + 1_000, ...opened.map(({ startsAtMs }) => startsAtMs))
    await world.begin()
    const beganAt = performance.now() + opensAtMs - Date.now()
    await world.flood(crowd, beganAt)
  },
  judge: (measured) => [
    atMost('accept p99', latency(measured, 'accept', 'p99_ms'), 90, 'ms'),
    atMost('p99 inside the gate', latency(measured, 'in the gate', 'p99_ms'), 60, 'ms'),
    atMost('refuse p99', latency(measured, 'refuse', 'p99_ms'), 90, 'ms'),
    atMost('accepted → told p99', latency(measured, 'deliver', 'p99_ms'), 1_000, 'ms'),
    atMost('arbiter’s script in Redis p99', measured.figures?.['redis_script_p99_us'], 5_000, 'µs'),
    none('bot served', measured.figures?.['bots_served']),
    none('listener or poller left without the result', measured.figures?.['watchers_not_told']),
  ],
}
