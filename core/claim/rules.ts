import { type Rules, rulesShape, type Validity } from '../../schema/rules.ts'
import type { Pool } from '../db.ts'
import type { Tx } from './issue.sql.ts'

/** What issuing must know of a campaign's rules. */
export interface IssueRules {
  validity: Validity
  inFlight: Rules['in_flight']
  review: Rules['review']
  /** A hint that may be old: issuing under the lock reads the limit that holds. */
  singlePerUser: boolean
}

/** A log entry names a campaign or a rule version that the ledger doesn't have. */
export class UnknownRules extends Error {
  constructor(campaignId: string, ruleVersion: number) {
    super(`campaign ${campaignId} has no rule version ${ruleVersion}`)
    this.name = 'UnknownRules'
  }
}

/** @param within the transaction that asks: one that waited here for another connection could wait for itself. */
export type RuleBook = (campaignId: string, ruleVersion: number, within?: Tx) => Promise<IssueRules>

const keptMax = 2_000

/** Reads rules once: a rule version never changes (IS3). The returned function throws UnknownRules. */
export function openRuleBook(pool: Pool): RuleBook {
  const kept = new Map<string, IssueRules>()
  return async (campaignId, ruleVersion, within) => {
    const key = `${campaignId}:${ruleVersion}`
    const known = kept.get(key)
    if (known !== undefined) return known
    const [row] = await (within ?? pool.sql)<{ rules: unknown; per_user_limit: number }[]>`
      SELECT r.rules, c.per_user_limit
      FROM rule_versions r JOIN campaigns c USING (campaign_id)
      WHERE r.campaign_id = ${campaignId} AND r.rule_version = ${ruleVersion}`
    if (row === undefined) throw new UnknownRules(campaignId, ruleVersion)
    const { validity, in_flight, review } = rulesShape.parse(row.rules)
    const singlePerUser = row.per_user_limit === 1
    const rules: IssueRules = { validity, inFlight: in_flight, review, singlePerUser }
    if (kept.size >= keptMax) kept.delete(kept.keys().next().value!)
    kept.set(key, rules)
    return rules
  }
}

const dayMs = 86_400_000

/** The half-open validity of a coupon issued now, as RFC 3339 instants. */
export function validityAt(validity: Validity, nowMs: number): { from: string; to: string } {
  const from = validity.kind === 'fixed' ? validity.from : new Date(nowMs).toISOString()
  const to = validity.kind === 'fixed' ? validity.to : new Date(nowMs + validity.days * dayMs).toISOString()
  return { from, to }
}
