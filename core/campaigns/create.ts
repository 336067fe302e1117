import { randomBytes } from 'node:crypto'
import { makeCampaignId } from '../../schema/campaignId.ts'
import { type Campaign, campaigns, ruleVersions } from '../../schema/db/tables.ts'
import { campaignMachine } from '../../schema/states.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { Refused } from '../refusal.ts'
import { campaignRoles } from './permissions.ts'
import { answerOf } from './read.ts'
import type { CampaignAnswer, NewCampaign } from './shapes.ts'
import { chooseStore } from './store.ts'

/** Makes a DRAFT with rule version 1. @throws Refused INVALID_REQUEST when its window is over already. */
export async function createCampaign(ctx: CommandContext, input: NewCampaign): Promise<Done<CampaignAnswer>> {
  return execute(ctx, {
    action: 'campaign.create',
    target: '',
    roles: campaignRoles.create,
    input,
    reason: undefined,
    async run(tx, now) {
      const endsAt = new Date(input.ends_at)
      if (endsAt <= now)
        throw new Refused('INVALID_REQUEST', { detail: 'Correct ends_at: it is in the past.' })
      const store = await chooseStore(tx, ctx.deps.stores, input.store)
      const campaign: Campaign = {
        campaignId: makeCampaignId(randomBytes(16), ctx.deps.keyrings.campaignId, store),
        name: input.name,
        mode: input.mode,
        state: campaignMachine.initial,
        version: 1,
        configVersion: 1,
        ruleVersion: 1,
        quota: input.quota,
        perUserLimit: input.per_user_limit,
        bucketCount: input.bucket_count,
        startsAt: new Date(input.starts_at),
        endsAt,
        timeZone: input.time_zone,
        createdBy: ctx.caller.actor,
        approvedBy: null,
        createdAt: now,
        updatedAt: now,
        tailPolicy: input.tail_policy,
        drip: input.drip ?? null,
        pace: input.pace ?? null,
        stockCollectedAt: null,
        delivery: input.delivery,
        store,
      }
      await tx.insert(campaigns).values(campaign)
      const { campaignId, ruleVersion, createdBy } = campaign
      await tx
        .insert(ruleVersions)
        .values({ campaignId, ruleVersion, rules: input.rules, createdBy, createdAt: now })
      const answer = answerOf({ campaign, rules: input.rules })
      return { answer, target: campaignId, after: answer }
    },
  })
}
