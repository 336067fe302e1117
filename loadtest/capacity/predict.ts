import { claimsPerCall } from './batches.ts'
import type { Costs } from './costs.ts'
import { platform } from './limits.ts'

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

/** Unit costs times a run, with the batches that its rate makes. */
export function predict({ unit, local }: Costs, run: Run): Prediction {
  const arbiter = run.accepted + run.repeats
  const arbiterPerSecond = run.claimsPerSecond
  const batch = claimsPerCall(arbiterPerSecond, local.call_ms)
  const calls = run.accepted / batch
  const entriesPerSecond = arbiterPerSecond / batch
  const entriesPerBatch = Math.min(
    platform.entriesPerBatch.amount,
    claimsPerCall(entriesPerSecond, local.drain_batch_ms),
  )
  const soldOutSeconds = run.soldOut / run.claimsPerSecond
  const looks = run.soldOut === 0 ? 0 : soldOutSeconds * soldOutLooksPerSecond
  const us = (each: number) => each / 1e6
  return {
    calls,
    commands:
      calls * unit.commands_per_accepting_call +
      // Repetitions travel in the same calls as first claims do, and add no command to them.
      looks * unit.commands_per_other_call +
      (calls / entriesPerBatch) * unit.commands_per_drain_batch +
      run.tokens * unit.commands_per_token +
      run.seconds * unit.commands_per_second_idle,
    worker: us(
      arbiter * unit.worker_us_per_claim +
        (arbiter / batch) * unit.worker_us_per_call +
        run.soldOut * unit.worker_us_per_sold_out +
        run.polls * unit.worker_us_per_poll +
        run.tokens * unit.worker_us_per_token +
        run.seconds * unit.worker_us_per_second_idle,
    ),
    gateway: us(
      arbiter * unit.gateway_us_per_claim +
        (arbiter / batch) * unit.gateway_us_per_call +
        run.tokens * unit.gateway_us_per_token +
        run.seconds * unit.gateway_us_per_second_idle,
    ),
    redis: us(
      arbiter * unit.redis_us_per_claim +
        (arbiter / batch) * unit.redis_us_per_call +
        run.accepted * unit.redis_us_per_coupon +
        run.tokens * unit.redis_us_per_token +
        run.seconds * unit.redis_us_per_second_idle,
    ),
    core: us(
      run.accepted * unit.core_us_per_coupon +
        run.polls * unit.core_us_per_poll +
        run.seconds * unit.core_us_per_second_idle,
    ),
    postgres: us(
      run.accepted * unit.postgres_us_per_coupon +
        run.polls * unit.postgres_us_per_poll +
        run.seconds * unit.postgres_us_per_second_idle,
    ),
  }
}

/** µs of CPU of all processes for a claim from its request to its coupon, the load generator's share included. */
export function usPerClaim({ unit, local }: Costs, claimsInCall: number): number {
  return (
    unit.worker_us_per_claim +
    unit.gateway_us_per_claim +
    unit.redis_us_per_claim +
    (unit.worker_us_per_call + unit.gateway_us_per_call + unit.redis_us_per_call) / claimsInCall +
    unit.core_us_per_coupon +
    unit.postgres_us_per_coupon +
    unit.redis_us_per_coupon +
    local.driver_us_per_request
  )
}
