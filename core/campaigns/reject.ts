import type { CommandContext } from '../command.ts'
import { type TransitionInput, transit } from './transition.ts'

/** IN_REVIEW → DRAFT: sent back to its maker. */
export const rejectCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transit(ctx, input, { verb: 'reject', from: ['IN_REVIEW'], to: 'DRAFT' })
