import type { CommandContext } from '../command.ts'
import { Refused } from '../refusal.ts'
import { type TransitionInput, transit } from './transition.ts'

/** IN_REVIEW → APPROVED, by somebody else than its maker (GV4). */
export const approveCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transit(ctx, input, {
    verb: 'approve',
    from: ['IN_REVIEW'],
    to: 'APPROVED',
    set: { approvedBy: ctx.caller.actor },
    check({ campaign }) {
      if (campaign.createdBy === ctx.caller.actor)
        throw new Refused('FORBIDDEN', {
          detail: 'You made this campaign. Another approver must approve it.',
        })
    },
  })
