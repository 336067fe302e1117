import type { CommandContext } from '../command.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/** ACTIVE or PAUSED → ENDED: before its time, and for good. Coupons stay valid. */
export const endCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transitAndTell(ctx, input, { verb: 'end', from: ['ACTIVE', 'PAUSED'], to: 'ENDED' })
