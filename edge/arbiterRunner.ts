import { ArbiterError, type ScriptRunner } from '../lua/runner.ts'
import { limits } from '../schema/limits.ts'
import type { Breaker } from './breaker.ts'

/** A call ends by itself within two of its timeouts (EVALSHA, then EVAL); past this its request has died. */
export const arbiterCallEndsMs = 2 * limits.arbiterCallTimeoutMs + 1_000

/** Does not ask a Redis that has stopped answering. Besides the runner's errors it throws CircuitOpen. */
export function breakerRunner(runner: ScriptRunner, breaker: Breaker): ScriptRunner {
  return {
    run: (script, keys, args) => breaker.run(() => runner.run(script, keys, args), isNoAnswer),
  }
}

/** What refuses or answers oddly is there. */
function isNoAnswer(error: unknown): boolean {
  return error instanceof ArbiterError && error.failure === 'unknown'
}
