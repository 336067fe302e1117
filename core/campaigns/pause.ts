import type { CommandContext } from '../command.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/** ACTIVE → PAUSED. */
export const pauseCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transitAndTell(ctx, input, {
    verb: 'pause',
    from: ['ACTIVE'],
    to: 'PAUSED',
  })
