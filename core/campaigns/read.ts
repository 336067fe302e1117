import { and, desc, eq, lt, or } from 'drizzle-orm'
import { type Campaign, campaigns, ruleVersions } from '../../schema/db/tables.ts'
import type { Rules } from '../../schema/rules.ts'
import type { Pool } from '../db.ts'
import { Refused } from '../refusal.ts'
import type { CampaignAnswer } from './shapes.ts'

type Reader = Pick<Pool['orm'], 'select'>

export interface RuledCampaign {
  campaign: Campaign
  /** Of its current rule version. */
  rules: Rules
}

const ruled = { campaign: campaigns, rules: ruleVersions.rules }
const currentRules = and(
  eq(ruleVersions.campaignId, campaigns.campaignId),
  eq(ruleVersions.ruleVersion, campaigns.ruleVersion),
)

export async function findCampaign(orm: Reader, campaignId: string): Promise<RuledCampaign | undefined> {
  const [found] = await orm
    .select(ruled)
    .from(campaigns)
    .innerJoin(ruleVersions, currentRules)
    .where(eq(campaigns.campaignId, campaignId))
  return found
}

/** @throws Refused CAMPAIGN_NOT_FOUND */
export async function readCampaign(orm: Reader, campaignId: string): Promise<RuledCampaign> {
  const found = await findCampaign(orm, campaignId)
  if (found === undefined) throw new Refused('CAMPAIGN_NOT_FOUND')
  return found
}

/** A position in the list: newest first. */
export interface After {
  createdAt: Date
  campaignId: string
}

export async function listCampaigns(
  orm: Reader,
  page: { limit: number; after: After | undefined },
): Promise<RuledCampaign[]> {
  const { after } = page
  const older =
    after &&
    or(
      lt(campaigns.createdAt, after.createdAt),
      and(eq(campaigns.createdAt, after.createdAt), lt(campaigns.campaignId, after.campaignId)),
    )
  return orm
    .select(ruled)
    .from(campaigns)
    .innerJoin(ruleVersions, currentRules)
    .where(older)
    .orderBy(desc(campaigns.createdAt), desc(campaigns.campaignId))
    .limit(page.limit)
}

/** A campaign as the admin API shows it. */
export function answerOf({ campaign, rules }: RuledCampaign): CampaignAnswer {
  return {
    id: campaign.campaignId,
    name: campaign.name,
    mode: campaign.mode,
    delivery: campaign.delivery,
    store: campaign.store,
    state: campaign.state,
    version: campaign.version,
    config_version: campaign.configVersion,
    rule_version: campaign.ruleVersion,
    quota: campaign.quota,
    per_user_limit: campaign.perUserLimit,
    bucket_count: campaign.bucketCount,
    starts_at: campaign.startsAt.toISOString(),
    ends_at: campaign.endsAt.toISOString(),
    time_zone: campaign.timeZone,
    tail_policy: campaign.tailPolicy,
    ...(campaign.drip === null ? {} : { drip: campaign.drip }),
    ...(campaign.pace === null ? {} : { pace: campaign.pace }),
    rules,
    created_by: campaign.createdBy,
    approved_by: campaign.approvedBy,
    created_at: campaign.createdAt.toISOString(),
    updated_at: campaign.updatedAt.toISOString(),
  }
}
