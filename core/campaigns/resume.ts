import type { CommandContext } from '../command.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/** PAUSED → ACTIVE. */
export const resumeCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transitAndTell(ctx, input, { verb: 'resume', from: ['PAUSED'], to: 'ACTIVE' })
