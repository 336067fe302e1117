import type { CommandContext } from '../command.ts'
import { type TransitionInput, transit } from './transition.ts'

/** DRAFT → IN_REVIEW. */
export const submitCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transit(ctx, input, { verb: 'submit', from: ['DRAFT'], to: 'IN_REVIEW' })
