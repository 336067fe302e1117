import { steady } from '../arrivals.ts'
import { titles } from '../names.ts'
import type { Scenario } from '../scenario.ts'
import { atLeast, atMost, latency, none } from '../verdict.ts'

/** Each presses five times on average, so that four of five requests are repetitions. */
const presses = 5

export const repeatUsers: Scenario = {
  name: 'repeat-users',
  title: titles['repeat-users'],
  about:
    'Everybody presses again and again, a few by a script. Watched: that a repetition has the answer of the first ' +
    'press, byte for byte; what it costs in Redis commands; and that a hot user is stopped at the gate.',
  // A request of this crowd takes 0.72 ms of two cores, so 0.6 of the rehearsal was 0.93 of the machine.
  share: 0.4,
  async run(world, { seconds, perSecond, seed }) {
    await world.open([{ quota: Math.min(100_000, Math.max(100, Math.round(perSecond * seconds))) }])
    const crowd = await world.gather({
      seed,
      seconds,
      perSecond,
      curve: steady,
      kinds: { repeater: 0.995, fanatic: 0.005 },
      campaigns: 1,
      zipf: 1,
      presses,
    })
    await world.begin()
    await world.flood(crowd)
    const counters = await world.counters()
    const entries = (counters.byCommand['xadd'] ?? 0) - (world.before!.counters.byCommand['xadd'] ?? 0)
    world.figures['log_entries_beyond_acceptances'] = Math.max(0, entries - crowd.accepted.length)
    const again = crowd.plan.presses.filter(({ act }) => act === 'again').length
    world.figures['repetitions_percent'] = (again / crowd.plan.presses.length) * 100
    world.figures['scripts'] = crowd.visitors.filter(({ person }) => person.kind === 'fanatic').length
    world.figures['repetitions_per_user'] = again / crowd.visitors.length
  },
  judge: (measured) => {
    const { figures = {}, codes } = measured
    return [
      atLeast('repetitions, of all requests', figures['repetitions_percent'], 75, '%'),
      atLeast('repetitions that were answered by the acceptance', codes['REPLAYED'], 1),
      none('repetition with another answer', figures['replays_that_differ']),
      none('log entry written for a repetition', figures['log_entries_beyond_acceptances']),
      atMost('replay p99', latency(measured, 'replay', 'p99_ms'), 90, 'ms'),
      atMost('accept p99', latency(measured, 'accept', 'p99_ms'), 90, 'ms'),
      // Seven for a call that accepts, four for one of repetitions alone; how many share a call is the rate's doing.
      atMost('Redis commands of the edge a call', figures['edge_commands_per_call'], 7),
      // A short form may have drawn none.
      ...(figures['scripts'] === 0
        ? []
        : [atLeast('presses of scripts that were stopped at the gate', codes['RATE_LIMITED'], 1)]),
    ]
  },
}
