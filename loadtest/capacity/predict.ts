import { claimsPerCall, entriesPerDrain, repeatsOnlyShare } from './batches.ts'
import type { Costs, LocalTimes } from './costs.ts'

/** What a run brings, in numbers that are known before it is measured. One isolate, one bucket, one machine. */
export interface Run {
  readonly seconds: number
  /** While claims come. */
  readonly claimsPerSecond: number
  readonly accepted: number
  readonly repeats: number
  readonly soldOut: number
  readonly polls: number
  readonly tokens: number
}

export interface Prediction {
  readonly calls: number
  readonly commands: number
  /** CPU seconds. */
  readonly worker: number
  readonly gateway: number
  readonly redis: number
  readonly core: number
  readonly postgres: number
}

/** Beside those of accepted claims: until an isolate has heard that all is gone, and looks for it since. */
const soldOutLooksPerSecond = 1_000 / 350

/** A busy machine's calls take longer: on the line through what was seen at two shares of what it takes. */
export function durationAt(share: number, local: LocalTimes, what: 'call_ms' | 'drain_batch_ms'): number {
  const [calm, busy] = [local[`calm_${what}`], local[`busy_${what}`]]
  const slope = (busy - calm) / (local.busy_share - local.calm_share)
  return Math.max(calm / 2, calm + slope * (share - local.calm_share))
}

/** Unit costs times a run, with the batches that its rate makes. */
export function predict({ unit, local }: Costs, run: Run): Prediction {
  const arbiter = run.accepted + run.repeats
  const share = run.claimsPerSecond / local.claims_per_second
  const callMs = durationAt(share, local, 'call_ms')
  const batch = claimsPerCall(run.claimsPerSecond, callMs)
  const calls = arbiter / batch
  const accepting =
    arbiter === 0 ? 0 : calls * (1 - repeatsOnlyShare(run.claimsPerSecond, callMs, run.repeats / arbiter))
  const entriesPerSecond = arbiter === 0 ? 0 : (run.claimsPerSecond * accepting) / arbiter
  const entriesPerBatch = entriesPerDrain(entriesPerSecond, durationAt(share, local, 'drain_batch_ms'))
  const drainBatches = accepting / entriesPerBatch
  const soldOutSeconds = run.soldOut / run.claimsPerSecond
  const looks = soldOutSeconds * soldOutLooksPerSecond
  const us = (each: number) => each / 1e6
  return {
    calls: accepting,
    commands:
      accepting * unit.commands_per_accepting_call +
      (calls - accepting + looks) * unit.commands_per_other_call +
      drainBatches * unit.commands_per_drain_batch +
      run.tokens * unit.commands_per_token +
      run.seconds * unit.commands_per_second_idle,
    worker: us(
      arbiter * unit.worker_us_per_claim +
        calls * unit.worker_us_per_call +
        run.soldOut * unit.worker_us_per_sold_out +
        run.polls * unit.worker_us_per_poll +
        run.tokens * unit.worker_us_per_token +
        run.seconds * unit.worker_us_per_second_idle,
    ),
    gateway: us(
      arbiter * unit.gateway_us_per_claim +
        calls * unit.gateway_us_per_call +
        run.tokens * unit.gateway_us_per_token +
        run.seconds * unit.gateway_us_per_second_idle,
    ),
    redis: us(
      arbiter * unit.redis_us_per_claim +
        calls * unit.redis_us_per_call +
        run.tokens * unit.redis_us_per_token +
        run.seconds * unit.redis_us_per_second_idle,
    ),
    core: us(
      run.accepted * unit.core_us_per_coupon +
        drainBatches * unit.core_us_per_drain_batch +
        run.polls * unit.core_us_per_poll +
        run.seconds * unit.core_us_per_second_idle,
    ),
    postgres: us(
      run.accepted * unit.postgres_us_per_coupon +
        drainBatches * unit.postgres_us_per_drain_batch +
        run.polls * unit.postgres_us_per_poll +
        run.seconds * unit.postgres_us_per_second_idle,
    ),
  }
}

/** µs of CPU of all processes for a claim from its request to its coupon, the load generator's share included. */
export function usPerClaim({ unit, local }: Costs, claimsInCall: number, couponsInBatch: number): number {
  return (
    unit.worker_us_per_claim +
    unit.gateway_us_per_claim +
    unit.redis_us_per_claim +
    (unit.worker_us_per_call + unit.gateway_us_per_call + unit.redis_us_per_call) / claimsInCall +
    unit.core_us_per_coupon +
    unit.postgres_us_per_coupon +
    (unit.core_us_per_drain_batch + unit.postgres_us_per_drain_batch) / couponsInBatch +
    local.driver_us_per_request
  )
}
