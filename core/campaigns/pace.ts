import type { Pace } from '../../schema/rules.ts'
import type { CommandContext, Done } from '../command.ts'
import { Refused } from '../refusal.ts'
import { amend } from './amend.ts'
import { answerWhenTold } from './gates.ts'
import { campaignRoles } from './permissions.ts'
import { type CampaignAnswer, paceFaults } from './shapes.ts'
import type { TransitionInput } from './transition.ts'

export interface PaceInput extends TransitionInput {
  /** null: as fast as it goes. */
  pace: Pace | null
}

/**
 * How fast a campaign accepts (CL12): graded backpressure while it runs, versioned like any configuration.
 * @throws like `amend`; INVALID_REQUEST when a bucket would have no share of it
 */
export async function paceCampaign(ctx: CommandContext, input: PaceInput): Promise<Done<CampaignAnswer>> {
  const { campaignId, expectedVersion, reason, pace } = input
  const done = await amend(ctx, {
    verb: 'pace',
    roles: campaignRoles.pace,
    from: ['ACTIVE', 'PAUSED'],
    campaignId,
    expectedVersion,
    input: { reason, pace },
    check({ campaign }) {
      if (campaign.mode === 'ballot')
        throw new Refused('CONFLICT', { detail: 'A ballot’s entries take no stock and need no pace.' })
      const [fault] = pace === null ? [] : paceFaults(pace, campaign.bucketCount)
      if (fault !== undefined)
        throw new Refused('INVALID_REQUEST', { detail: `Correct pace.${fault[0]}: ${fault[1]}.` })
    },
    set: ({ configVersion }) => ({ pace, configVersion: configVersion + 1 }),
  })
  return answerWhenTold(ctx, 'campaign.pace', done)
}
