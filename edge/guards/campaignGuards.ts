import type { Guards } from '../../schema/guards.ts'
import type { CampaignSnapshot } from '../../schema/view.ts'
import { Away } from '../away.ts'
import { type BlockList, makeBlockList } from './blocks.ts'
import { type CampaignRates, ratesOf } from './limits.ts'
import { type RiskScorer, rulesScorer } from './risk.ts'

/** A campaign's guards, prepared once for each snapshot. */
export interface CampaignGuards {
  readonly rules: Guards
  readonly tokenRates: CampaignRates
  readonly claimRates: CampaignRates
  readonly blocked: BlockList
  readonly audience: ReadonlySet<string> | undefined
  readonly scorer: RiskScorer | undefined
}

const prepared = new WeakMap<CampaignSnapshot, CampaignGuards>()
/** Of a campaign that has none, or that this isolate has not seen. */
export const noGuards = prepare({})

/** @throws Away when they can't be understood: what is not understood guards nothing, so nobody passes. */
export function guardsOf(snapshot: CampaignSnapshot): CampaignGuards {
  if (snapshot.guards === undefined) return noGuards
  let guards = prepared.get(snapshot)
  if (guards === undefined) {
    try {
      guards = prepare(snapshot.guards)
    } catch (error) {
      throw new Away('guards: the campaign’s rules are not understood', error)
    }
    prepared.set(snapshot, guards)
  }
  return guards
}

function prepare(rules: Guards): CampaignGuards {
  return {
    rules,
    tokenRates: ratesOf(rules.limits?.token),
    claimRates: ratesOf(rules.limits?.claim),
    blocked: makeBlockList(rules.blocked ?? {}),
    audience: rules.audience && new Set(rules.audience.users),
    scorer: rules.risk && rulesScorer(rules.risk.rules),
  }
}
