import type { CapacityRecord } from '../record/record.ts'
import type { UnitCosts } from './costs.ts'
import { platform } from './limits.ts'
import type { Plan, Station } from './plan.ts'
import type { Traffic } from './traffic.ts'

/** The plan in words: what is needed, how much of it, and from which figures that follows. */
export function needsOf(traffic: Traffic, costs: UnitCosts, plan: Plan): CapacityRecord['needs'] {
  const { units, flow } = plan
  const n = (value: number, digits = 0) => value.toLocaleString('en', { maximumFractionDigits: digits })
  const mib = (bytes: number) => `${n(bytes / 2 ** 20, 1)} MiB`
  const percent = Math.round(traffic.utilisation * 100)
  const dollars = flow.commandsInTheHour * platform.dollarsPerCommand.amount
  const held = (traffic.quota / units.databases) * costs.redis_bytes_per_acceptance
  return [
    {
      what: 'requests at the edge',
      amount: `${n(traffic.peakPerSecond)}/s`,
      why: `${n(flow.firstPerSecond)} first claims, ${n(traffic.peakPerSecond * traffic.repeatShare)} repetitions, ${n(traffic.peakPerSecond * traffic.botShare)} refused at the gate; sold out after ${n(flow.sellSeconds, 2)} s`,
    },
    {
      what: 'isolates',
      amount: n(units.isolates),
      why: `${n(flow.edgeCoresSelling, 1)} cores while selling, ${n(flow.edgeCoresSoldOut, 1)} when sold out, none busier than ${percent} %; at least ${traffic.locations} locations`,
    },
    {
      what: 'Redis databases, one bucket each',
      amount: n(units.databases),
      why: `${n(flow.arbiterPerSecond)} decisions/s in ${n(flow.calls.perSecond)} calls/s of ${n(flow.calls.claims, 1)} claims and ${n(flow.calls.ms, 1)} ms; ${n(flow.calls.perSecond * costs.commands_per_accepting_call)} commands/s at ${n(platform.commandsPerDatabase.amount)} a database (${platform.commandsPerDatabase.source}): over it calls wait, and grow; at most ${n(platform.bucketQuota.amount)} coupons a bucket`,
    },
    {
      what: 'Redis of the limits',
      amount: n(units.limitDatabases),
      why: `${n(flow.tokensPerSecond)} tokens/s of ${n(costs.commands_per_token, 1)} commands`,
    },
    {
      what: 'Redis commands in the hour',
      amount: `${n(flow.commandsInTheHour)}, $${n(dollars, 2)}`,
      why: `tokens, selling, looks while sold out, drain and leases; ${platform.dollarsPerCommand.what} (${platform.dollarsPerCommand.source})`,
    },
    {
      what: 'memory of a Redis database',
      amount: mib(held),
      why: `${n(costs.redis_bytes_per_acceptance)} bytes an acceptance: it follows the quota, not the traffic`,
    },
    {
      what: 'drain processes',
      amount: n(units.drains),
      why: `${n(flow.couponsPerSecond)} coupons/s for all within ${n(traffic.deliverSeconds)} s, ${n(costs.coupons_per_second)}/s each`,
    },
    {
      what: 'Postgres',
      amount: `${n(flow.postgresCores, 1)} cores busy`,
      why: `${n(flow.couponsPerSecond)} coupons/s in about ${n(Math.max(1, flow.couponsPerSecond / platform.entriesPerBatch.amount / flow.calls.claims))} transactions/s, ${n(flow.pollsPerSecond)} polls/s`,
    },
    {
      what: 'processes for event streams',
      amount: n(units.streamProcesses),
      why: `${n(flow.streams)} streams, ${mib(flow.streams * costs.kib_per_stream * 1024)} together`,
    },
    {
      what: 'core processes for polls',
      amount: n(units.readers),
      why: `${n(flow.pollsPerSecond)} polls/s while everybody accepted waits, ${n(costs.core_us_per_poll)} µs each`,
    },
    {
      what: 'traffic out of the edge',
      amount: `${n((traffic.peakPerSecond * costs.answer_bytes * 8) / 1e9, 2)} Gbit/s`,
      why: `${n(costs.answer_bytes)} bytes an acceptance’s answer`,
    },
  ]
}

/** The fullest part, how full it is, and who comes next. */
export function bottleneckOf(plan: Plan): string {
  const [first, second] = plan.stations as [Station, Station]
  return `${inWords(first)}; then ${inWords(second)}`
}

export function inWords({ name, units, used, limit }: Station): string {
  const room =
    used <= 1 ? `head-room ${Math.round((1 - used) * 100)} %` : `over by ${Math.round((used - 1) * 100)} %`
  const of = `${units > 1 ? `${units} × ` : ''}${limit.amount.toLocaleString('en')} ${limit.what}`
  return `${name}: ${Math.round(used * 100)} % of ${of} (${limit.source}), ${room}`
}
