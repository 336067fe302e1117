import { eq, sql } from 'drizzle-orm'
import { campaignStock } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import type { CommandContext, Done } from '../command.ts'
import { forbidden } from '../http/identity.ts'
import { Refused } from '../refusal.ts'
import { deliverStock } from '../stock/spread.ts'
import { amend } from './amend.ts'
import { campaignRoles } from './permissions.ts'
import type { CampaignAnswer } from './shapes.ts'
import type { TransitionInput } from './transition.ts'

export interface IncreaseInput extends TransitionInput {
  amount: number
}

/**
 * More coupons than were approved at first, by an approver who is not the campaign's maker (GV4). Quota and
 * unallocated stock grow in one transaction; the stock is then put into the buckets, whose epoch grows with it, so
 * that people who were told SOLD_OUT may claim again. A crash in between is healed by the stock's next round.
 * @throws like `amend`; CONFLICT when the buckets can't hold as much
 */
export async function increaseCampaign(
  ctx: CommandContext,
  input: IncreaseInput,
): Promise<Done<CampaignAnswer>> {
  const { campaignId, expectedVersion, reason, amount } = input
  const done = await amend(ctx, {
    verb: 'increase',
    roles: campaignRoles.increase,
    from: ['ACTIVE', 'PAUSED'],
    campaignId,
    expectedVersion,
    input: { reason, amount },
    check({ campaign }) {
      if (campaign.createdBy === ctx.caller.actor) throw forbidden(campaignRoles.increase)
      const most =
        campaign.delivery === 'direct'
          ? limits.directQuotaMax
          : Math.min(limits.campaignQuotaMax, campaign.bucketCount * limits.bucketQuotaMax)
      if (campaign.quota + amount > most)
        throw new Refused('CONFLICT', {
          detail: `Its ${campaign.bucketCount} buckets hold at most ${most}: add ${most - campaign.quota} or less.`,
        })
    },
    set: ({ quota }) => ({ quota: quota + amount }),
    async also(tx) {
      await tx
        .update(campaignStock)
        .set({
          quota: sql`${campaignStock.quota} + ${amount}`,
          unallocated: sql`${campaignStock.unallocated} + ${amount}`,
        })
        .where(eq(campaignStock.campaignId, campaignId))
    },
  })
  const hasBuckets = done.answer.mode !== 'ballot' && done.answer.delivery !== 'direct'
  if (hasBuckets && !done.replayed) await deliverStock(ctx.deps, campaignId)
  return done
}
