import { and, eq } from 'drizzle-orm'
import { type Campaign, campaigns } from '../../schema/db/tables.ts'
import { type CampaignState, campaignMachine } from '../../schema/states.ts'
import { type CommandContext, type Done, execute, type Tx } from '../command.ts'
import { Refused } from '../refusal.ts'
import { type CampaignVerb, campaignRoles } from './permissions.ts'
import { answerOf, type RuledCampaign, readCampaign } from './read.ts'
import type { CampaignAnswer } from './shapes.ts'

/** What each verb on an existing campaign is given. */
export interface TransitionInput {
  campaignId: string
  /** The version that the caller saw (If-Match). */
  expectedVersion: number
  reason: string | undefined
}

export interface Transition {
  verb: CampaignVerb
  from: readonly CampaignState[]
  to: CampaignState
  /** Further columns that change. */
  set?: Partial<Pick<Campaign, 'approvedBy'>>
  /** Further conditions. @throws Refused */
  check?(found: RuledCampaign, now: Date): void
  /** Further writes of the same transaction. */
  also?(tx: Tx, campaign: Campaign, now: Date): Promise<void>
}

/**
 * Moves a campaign from one state to another as one command.
 * @throws Refused CAMPAIGN_NOT_FOUND, PRECONDITION_FAILED (another version), CONFLICT (another state), FORBIDDEN
 */
export async function transit(
  ctx: CommandContext,
  input: TransitionInput,
  transition: Transition,
): Promise<Done<CampaignAnswer>> {
  const { verb } = transition
  return execute(ctx, {
    action: `campaign.${verb}`,
    target: input.campaignId,
    roles: campaignRoles[verb],
    input: { reason: input.reason ?? null },
    reason: input.reason,
    async run(tx, now) {
      const found = await readCampaign(tx, input.campaignId)
      const before = answerOf(found)
      assertMovable(found.campaign, input.expectedVersion, transition)
      transition.check?.(found, now)
      const campaign = await move(tx, found.campaign, transition, now)
      await transition.also?.(tx, campaign, now)
      const after = answerOf({ campaign, rules: found.rules })
      return { answer: after, before, after }
    },
  })
}

/** @throws Refused PRECONDITION_FAILED, CONFLICT */
export function assertMovable(
  campaign: Campaign,
  expectedVersion: number,
  { verb, from }: { verb: string; from: readonly CampaignState[] },
): void {
  if (campaign.version !== expectedVersion) throw new Refused('PRECONDITION_FAILED')
  if (!from.includes(campaign.state))
    throw new Refused('CONFLICT', {
      detail: `The campaign is ${campaign.state}; ${verb} needs ${from.join(' or ')}.`,
      state: campaign.state,
    })
}

/** Conditional on the state and version that were read: of two at once, one finds no row. */
async function move(tx: Tx, seen: Campaign, transition: Transition, now: Date): Promise<Campaign> {
  const [moved] = await tx
    .update(campaigns)
    .set({
      ...transition.set,
      state: campaignMachine.move(seen.state, transition.to),
      version: seen.version + 1,
      configVersion: hasGates(seen.state) ? seen.configVersion + 1 : seen.configVersion,
      updatedAt: now,
    })
    .where(
      and(
        eq(campaigns.campaignId, seen.campaignId),
        eq(campaigns.state, seen.state),
        eq(campaigns.version, seen.version),
      ),
    )
    .returning()
  if (moved === undefined) throw new Refused('PRECONDITION_FAILED')
  return moved
}

/** From then on every change is one that the gates must be told. */
function hasGates(state: CampaignState): boolean {
  return state === 'ACTIVE' || state === 'PAUSED'
}
