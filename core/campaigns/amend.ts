import { and, eq } from 'drizzle-orm'
import { type Campaign, campaigns } from '../../schema/db/tables.ts'
import type { CampaignState } from '../../schema/states.ts'
import { type CommandContext, type Done, execute, type Tx } from '../command.ts'
import type { Role } from '../http/identity.ts'
import { Refused } from '../refusal.ts'
import { answerOf, type RuledCampaign, readCampaign } from './read.ts'
import type { CampaignAnswer } from './shapes.ts'
import { assertMovable } from './transition.ts'

export interface Amendment {
  verb: string
  roles: readonly Role[]
  /** States in which it is allowed; it stays in them. */
  from: readonly CampaignState[]
  /** What the caller asks. */
  input: { reason: string | undefined; [name: string]: unknown }
  campaignId: string
  expectedVersion: number
  /** Further conditions. @throws Refused */
  check(found: RuledCampaign, now: Date): void
  /** Columns that change; with `configVersion` one that the gates must be told. */
  set(campaign: Campaign): Partial<Pick<Campaign, 'quota' | 'pace' | 'configVersion'>>
  /** Further writes of the same transaction. */
  also?(tx: Tx, campaign: Campaign, now: Date): Promise<void>
}

/**
 * Changes something of a published campaign that is no state, as one command (GV2).
 * @throws Refused CAMPAIGN_NOT_FOUND, PRECONDITION_FAILED (another version), CONFLICT (another state), FORBIDDEN
 */
export async function amend(ctx: CommandContext, amendment: Amendment): Promise<Done<CampaignAnswer>> {
  const { verb, campaignId, input } = amendment
  return execute(ctx, {
    action: `campaign.${verb}`,
    target: campaignId,
    roles: amendment.roles,
    input: { ...input, reason: input.reason ?? null },
    reason: input.reason,
    async run(tx, now) {
      const found = await readCampaign(tx, campaignId)
      assertMovable(found.campaign, amendment.expectedVersion, amendment)
      amendment.check(found, now)
      const { version } = found.campaign
      // Conditional on the version that was read: of two at once, one finds no row.
      const [campaign] = await tx
        .update(campaigns)
        .set({ ...amendment.set(found.campaign), version: version + 1, updatedAt: now })
        .where(and(eq(campaigns.campaignId, campaignId), eq(campaigns.version, version)))
        .returning()
      if (campaign === undefined) throw new Refused('PRECONDITION_FAILED')
      await amendment.also?.(tx, campaign, now)
      const after = answerOf({ campaign, rules: found.rules })
      return { answer: after, before: answerOf(found), after }
    },
  })
}
