import { campaignOfKey } from '../lua/keys.ts'
import { ArbiterError, restRunner, type ScriptRunner } from '../lua/runner.ts'
import { mainStore, storeOfCampaign } from '../schema/campaignId.ts'
import { limits } from '../schema/limits.ts'
import { Breaker } from './breaker.ts'
import type { Config, RestAddress } from './config.ts'
import type { Log } from './log.ts'

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

/** A runner for all stores (SC2), and the circuits to them, the main store's first. */
export interface ArbiterRunner {
  readonly runner: ScriptRunner
  readonly circuits: readonly Breaker[]
}

/**
 * Asks the store that a key's campaign names. Each has a circuit of its own: when one is away, the campaigns of the
 * others are served as ever.
 */
export function makeArbiterRunner(
  { redis, stores }: Pick<Config, 'redis' | 'stores'>,
  log: Log,
  clock: () => number,
): ArbiterRunner {
  const circuits: Breaker[] = []
  const open = (name: string, { url, token }: RestAddress): ScriptRunner => {
    const what = name === mainStore ? 'redis' : `redis ${name}`
    const breaker = new Breaker({ what, log, callEndsMs: arbiterCallEndsMs, clock })
    circuits.push(breaker)
    const timeoutMs = limits.arbiterCallTimeoutMs
    return breakerRunner(
      restRunner({ url, token, timeoutMs, fetch: (input, init) => fetch(input, init) }),
      breaker,
    )
  }
  const runners = new Map([[mainStore, open(mainStore, redis)]])
  for (const [name, target] of stores) runners.set(name, open(name, target))
  return { runner: storeRunner(runners), circuits }
}

/** By the store that the campaign's id names. @throws ArbiterError refused, for a store that is not configured. */
export function storeRunner(runners: ReadonlyMap<string, ScriptRunner>): ScriptRunner {
  return {
    run(script, keys, args) {
      const name = storeOfCampaign(campaignOfKey(keys[0]!))
      const runner = runners.get(name)
      if (runner !== undefined) return runner.run(script, keys, args)
      return Promise.reject(
        new ArbiterError('refused', `no store ${name} is configured: add it to UPSTASH_STORES`),
      )
    },
  }
}
