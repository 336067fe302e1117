import type { Redis } from '@upstash/redis/cloudflare'
import { type Address, Networks } from '../../schema/address.ts'
import { assertNever } from '../../schema/assert.ts'
import type { Risk, RiskRule } from '../../schema/guards.ts'
import { bounds } from '../bounds.ts'
import { within } from '../lifetime.ts'
import type { Caller } from './localLimits.ts'
import { storeAway } from './sharedLimits.ts'

/** What a scorer may know of a request for a claim token. */
export interface RiskFacts {
  readonly campaignId: string
  readonly caller: Caller
  readonly address: Address | undefined
  readonly nowMs: number
}

/** Gives a request a score; how much of it matters is for the thresholds. @throws Away: then no token is issued. */
export interface RiskScorer {
  score(facts: RiskFacts, redis: Redis): Promise<number>
}

export type RiskOutcome = 'allow' | 'challenge' | 'review' | 'deny'

/** The strictest outcome whose threshold the score has reached. */
export function outcomeOf(risk: Omit<Risk, 'rules'>, score: number): RiskOutcome {
  const reached = (threshold: number | undefined) => threshold !== undefined && score >= threshold
  if (reached(risk.deny_at)) return 'deny'
  if (reached(risk.review_at)) return 'review'
  return reached(risk.challenge_at) ? 'challenge' : 'allow'
}

/** A campaign's rules as a scorer: the sum of the scores of all rules that hold. @throws on a malformed network. */
export function rulesScorer(rules: readonly RiskRule[]): RiskScorer {
  const holds = rules.map(ruleOf)
  return {
    async score(facts, redis) {
      const scores = rules.map(async (rule, i) => ((await holds[i]!(facts, redis)) ? rule.score : 0))
      const late = 'guards: the risk rules are late'
      try {
        const all = await within(Promise.all(scores), bounds.guardStoreTimeoutMs * 2, late)
        return all.reduce((sum, score) => sum + score, 0)
      } catch (error) {
        throw storeAway(error)
      }
    },
  }
}

type Holds = (facts: RiskFacts, redis: Redis) => Promise<boolean> | boolean

function ruleOf(rule: RiskRule, index: number): Holds {
  switch (rule.kind) {
    case 'velocity':
      return async (facts, redis) => {
        const subject = subjectOf(rule.of, facts.caller)
        if (subject === undefined) return false
        const key = windowKey(facts, index, rule.per_ms, `${rule.of}:${subject}`)
        const counting = redis.multi().incr(key).pexpire(key, rule.per_ms)
        const [count] = await counting.exec<[number, number]>()
        return Number(count) > rule.count
      }
    case 'device_sharing':
      return async (facts, redis) => {
        const key = windowKey(facts, index, rule.per_ms, `users:${facts.caller.deviceHash}`)
        // An estimate that is exact while it is small, in at most 12 KB however many users there are.
        const counting = redis
          .multi()
          .pfadd(key, encodeURIComponent(facts.caller.userId))
          .pexpire(key, rule.per_ms)
          .pfcount(key)
        const [, , users] = await counting.exec<[number, number, number]>()
        return Number(users) > rule.users
      }
    case 'address_reputation': {
      const networks = new Networks(rule.networks)
      return ({ address }) => address !== undefined && networks.has(address)
    }
    default:
      return assertNever(rule, 'risk rule')
  }
}

function subjectOf(of: 'user' | 'device' | 'address', caller: Caller): string | undefined {
  if (of === 'user') return encodeURIComponent(caller.userId)
  return of === 'device' ? caller.deviceHash : caller.tiers?.address
}

/** A count starts anew each window: a score needs no exact edge, and pays for one key. */
function windowKey({ campaignId, nowMs }: RiskFacts, rule: number, perMs: number, subject: string): string {
  return `tg:risk:{${campaignId}:${rule}:${subject}}:${Math.floor(nowMs / perMs)}`
}
