/**
 * What one of each costs. A claim's share of a call is told apart from the claim itself, since a call carries one
 * claim on an idle gate and dozens on a busy one.
 */
export const unitMeanings = {
  worker_us_per_claim: 'CPU of the worker runtime for a claim that is accepted, µs',
  worker_us_per_call: 'the same for an arbitration call',
  gateway_us_per_claim: 'CPU of the local gateway, which stands for Upstash’s REST front',
  gateway_us_per_call: 'the same for a call',
  redis_us_per_claim: 'CPU of Redis for an acceptance, settled later, µs',
  redis_us_per_call: 'the same for a call',
  worker_us_per_replay: 'a repetition of an accepted claim, its calls included',
  gateway_us_per_replay: 'the same at the gateway',
  redis_us_per_replay: 'the same at Redis',
  worker_us_per_sold_out: 'a claim refused from the isolate’s memory',
  worker_us_per_token: 'a claim token, login check and limits included',
  gateway_us_per_token: 'the same at the gateway',
  redis_us_per_token: 'the same at Redis',
  worker_us_per_poll: 'a question for a claim’s status',
  core_us_per_poll: 'the same at the core',
  postgres_us_per_poll: 'the same at Postgres',
  core_us_per_coupon: 'from the log to the told result, CPU of the core, µs',
  core_us_per_drain_batch: 'the same for one transaction of the drain',
  postgres_us_per_coupon: 'CPU of Postgres for a coupon, µs',
  postgres_us_per_drain_batch: 'the same for one transaction of the drain',
  commands_per_accepting_call: 'as Upstash counts, those inside the script too',
  commands_per_other_call: 'a call that only repeats or refuses',
  commands_per_token: 'the limits of a token',
  commands_per_drain_batch: 'one transaction of the drain: read, settle, acknowledge, tell',
  commands_per_second_idle: 'an open campaign of one bucket at rest: leases, looks for work',
  worker_us_per_second_idle: 'CPU at rest, µs a second',
  gateway_us_per_second_idle: 'CPU at rest, µs a second',
  redis_us_per_second_idle: 'CPU at rest, µs a second',
  core_us_per_second_idle: 'CPU at rest, µs a second',
  postgres_us_per_second_idle: 'CPU at rest, µs a second',
  coupons_per_second: 'one core process from a full log, with the Postgres that it had',
  redis_bytes_per_acceptance: 'memory of a settled acceptance',
  kib_per_stream: 'resident memory of an open event stream in the core',
  answer_bytes: 'head and body of an acceptance’s answer',
} as const

export type UnitCosts = Readonly<Record<keyof typeof unitMeanings, number>>

/** How one machine behaves while all parts share it: for predicting runs on it, and for nothing else. */
export const localMeanings = {
  calm_share: 'share of what the machine takes at which the first durations were looked at',
  busy_share: 'and the second ones',
  calm_call_ms: 'duration of an arbitration call at the first share',
  busy_call_ms: 'and at the second',
  calm_drain_batch_ms: 'duration of a drain’s transaction, acknowledgement included, at the first share',
  busy_drain_batch_ms: 'and at the second',
  claims_per_second: 'what the machine took with all connections always waiting',
  driver_us_per_request: 'CPU of the load generator, which takes its part of the same cores',
} as const

export type LocalTimes = Readonly<Record<keyof typeof localMeanings, number>>

export interface Costs {
  readonly unit: UnitCosts
  readonly local: LocalTimes
  /** RFC 3339, and the machine. */
  readonly measured_at: string
  readonly where: string
}

/** @throws with a sentence when a figure is missing or is no number of 0 or more. */
export function parseCosts(text: string): Costs {
  const costs = JSON.parse(text) as Partial<Costs>
  const check = (names: readonly string[], values: Readonly<Record<string, unknown>> | undefined) => {
    for (const name of names) {
      const value = values?.[name]
      if (typeof value !== 'number' || !Number.isFinite(value) || value < 0)
        throw new Error(`the costs have no ${name}: measure them again`)
    }
  }
  check(Object.keys(unitMeanings), costs.unit)
  check(Object.keys(localMeanings), costs.local)
  return costs as Costs
}
