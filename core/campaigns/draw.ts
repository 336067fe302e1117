import { draw, whyNotRipe } from '../ballot/draw.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { Refused } from '../refusal.ts'
import { campaignRoles } from './permissions.ts'
import { answerOf, readCampaign } from './read.ts'
import type { CampaignAnswer } from './shapes.ts'
import { assertMovable, type TransitionInput } from './transition.ts'

/**
 * Draws a ballot whose window is over and whose entries are all in the ledger; the results follow in the background.
 * @throws Refused CAMPAIGN_NOT_FOUND, PRECONDITION_FAILED, CONFLICT (no ballot, drawn already, not ripe: says why)
 */
export function drawBallot(ctx: CommandContext, input: TransitionInput): Promise<Done<CampaignAnswer>> {
  const { campaignId, expectedVersion, reason } = input
  return execute(ctx, {
    action: 'campaign.draw',
    target: campaignId,
    roles: campaignRoles.draw,
    input: { reason: reason ?? null },
    reason,
    async run(tx, now) {
      const found = await readCampaign(tx, campaignId)
      const { campaign } = found
      assertMovable(campaign, expectedVersion, { verb: 'draw', from: ['ACTIVE', 'PAUSED', 'ENDED'] })
      if (campaign.mode !== 'ballot') throw new Refused('CONFLICT', { detail: 'This campaign is no ballot.' })
      const why = await whyNotRipe(ctx.deps, campaign)
      if (why !== undefined) throw new Refused('CONFLICT', { detail: why })
      const entrants = await draw(tx, campaignId, now)
      return { answer: answerOf(found), before: { ballot: 'OPEN' }, after: { ballot: 'DRAWN', entrants } }
    },
  })
}
