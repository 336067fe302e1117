import { campaignMachine } from '../../schema/states.ts'
import type { CommandContext } from '../command.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/** Any state but ENDED → VOIDED: the campaign should never have been, and gives no more coupons. */
export const voidCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transitAndTell(ctx, input, {
    verb: 'void',
    from: campaignMachine.sources('VOIDED'),
    to: 'VOIDED',
  })
