import { z } from '@hono/zod-openapi'
import { storeNameForm } from '../../schema/campaignId.ts'
import { limits } from '../../schema/limits.ts'
import {
  type Drip,
  dripShape,
  type Pace,
  paceShape,
  type Rules,
  rulesShape,
  tailPolicies,
} from '../../schema/rules.ts'

/** Shapes of campaigns in the admin API (DESIGN §7). */

/** Text that people read: no control characters, which also Postgres could not hold. */
export const lineOf = (charsMax: number) =>
  z
    .string()
    .trim()
    .min(1, 'it is empty')
    .max(charsMax, `it has more than ${charsMax} characters`)
    .refine(
      (text) => !/\p{Cc}/u.test(text) && text.isWellFormed(),
      'it has control characters or broken ones',
    )

const instant = z.iso.datetime({ offset: true, error: 'give an instant such as 2026-12-01T10:00:00Z' })

const timeZone = z.string().refine(isTimeZone, 'give an IANA name such as Asia/Shanghai')

function isTimeZone(name: string): boolean {
  // Offsets would pass below, but have no daylight saving to keep.
  if (!/^[A-Za-z]/.test(name)) return false
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== undefined
  } catch {
    return false
  }
}

const minBuckets = (quota: number) => Math.ceil(quota / limits.bucketQuotaMax)

export const newCampaignShape = z
  .object({
    name: lineOf(200),
    mode: z.enum(['first_come', 'drip', 'ballot']).default('first_come'),
    delivery: z
      .enum(['stream', 'direct'])
      .default('stream')
      .openapi({ description: 'direct: claimed in the database at once; for small campaigns.' }),
    store: z.string().regex(storeNameForm).optional().openapi({
      description: 'The Redis deployment for its gates; otherwise the one with the fewest campaigns.',
    }),
    quota: z.int().min(1).max(limits.campaignQuotaMax),
    per_user_limit: z.int().min(1).max(limits.perUserLimitMax),
    starts_at: instant,
    ends_at: instant,
    time_zone: timeZone,
    rules: rulesShape,
    bucket_count: z.int().min(1).max(limits.bucketsMax).optional(),
    tail_policy: z.enum(tailPolicies).default('rebalance'),
    drip: dripShape.optional(),
    pace: paceShape.optional(),
  })
  .strict()
  .superRefine((campaign, ctx) => {
    const fault = (path: (string | number)[], message: string) =>
      ctx.addIssue({ code: 'custom', path, message })
    if (Date.parse(campaign.starts_at) >= Date.parse(campaign.ends_at))
      fault(['ends_at'], 'it must be after starts_at')
    const buckets = campaign.bucket_count ?? minBuckets(campaign.quota)
    if (buckets < minBuckets(campaign.quota))
      fault(
        ['bucket_count'],
        `a bucket holds at most ${limits.bucketQuotaMax}: give ${minBuckets(campaign.quota)} or more`,
      )
    if (buckets > campaign.quota) fault(['bucket_count'], 'there would be buckets without stock')
    for (const [path, message] of faultsOf(campaign.rules, campaign.ends_at))
      fault(['rules', ...path], message)
    for (const [path, message] of modeFaults(campaign, buckets)) fault(path, message)
    if (campaign.delivery === 'direct')
      for (const [path, message] of directFaults(campaign, buckets)) fault(path, message)
  })
  .transform((campaign) => ({
    ...campaign,
    bucket_count: campaign.bucket_count ?? minBuckets(campaign.quota),
  }))
export type NewCampaign = z.infer<typeof newCampaignShape>

/** Claimed in the database: no gate takes part, and no claim waits. */
function directFaults(
  { mode, quota, pace, rules }: { mode: string; quota: number; pace?: Pace | undefined; rules: Rules },
  buckets: number,
): [string[], string][] {
  const faults: [string[], string][] = []
  if (mode !== 'first_come') faults.push([['delivery'], 'direct needs the mode first_come'])
  if (quota > limits.directQuotaMax)
    faults.push([['quota'], `direct is for small campaigns: give at most ${limits.directQuotaMax}`])
  if (pace !== undefined) faults.push([['pace'], 'direct has no pace'])
  if (buckets !== 1) faults.push([['bucket_count'], 'direct has no buckets: leave it out'])
  if (rules.guards?.risk !== undefined)
    faults.push([['rules', 'guards', 'risk'], 'direct holds no claims for review: leave it out'])
  return faults
}

/** Each gate has its share of a drip and of a pace: one without a share would never give anything. */
function modeFaults(
  {
    mode,
    drip,
    pace,
    per_user_limit,
  }: { mode: string; drip?: Drip | undefined; pace?: Pace | undefined; per_user_limit: number },
  buckets: number,
): [string[], string][] {
  const faults: [string[], string][] = []
  if (mode === 'drip' && drip === undefined) faults.push([['drip'], 'say how the stock is released'])
  if (mode !== 'drip' && drip !== undefined) faults.push([['drip'], 'only a campaign of mode drip has it'])
  if (mode === 'ballot' && per_user_limit !== 1)
    faults.push([['per_user_limit'], 'a ballot gives each user one entry: give 1'])
  if (mode === 'ballot' && pace !== undefined)
    faults.push([['pace'], 'a ballot’s entries take no stock and need no pace'])
  if (drip !== undefined && drip.amount < buckets)
    faults.push([['drip', 'amount'], `there are ${buckets} buckets: give as much or more`])
  if (pace !== undefined)
    for (const [name, text] of paceFaults(pace, buckets)) faults.push([['pace', name], text])
  return faults
}

export function paceFaults(pace: Pace, buckets: number): [keyof Pace, string][] {
  const text = `there are ${buckets} buckets: give as much or more`
  return (['per_second', 'burst'] as const).flatMap((name): [keyof Pace, string][] =>
    pace[name] < buckets ? [[name, text]] : [],
  )
}

/** What is wrong with rules whose parts are each well formed. */
function faultsOf({ benefit, validity }: Rules, endsAt: string): [string[], string][] {
  const faults: [string[], string][] = []
  const { kind } = benefit
  if (kind === 'amount_off' && benefit.amount.currency !== benefit.threshold.currency)
    faults.push([['benefit', 'threshold'], 'its currency must be the amount’s'])
  if (kind === 'amount_off' && BigInt(benefit.amount.minor) === 0n)
    faults.push([['benefit', 'amount'], 'it must be more than nothing'])
  if (kind === 'percent_off' && benefit.cap && benefit.cap.currency !== benefit.threshold.currency)
    faults.push([['benefit', 'cap'], 'its currency must be the threshold’s'])
  if (validity.kind === 'fixed') {
    if (Date.parse(validity.from) >= Date.parse(validity.to))
      faults.push([['validity', 'to'], 'it must be after from'])
    else if (Date.parse(validity.to) < Date.parse(endsAt))
      faults.push([['validity', 'to'], 'a coupon claimed just before ends_at would have expired already'])
  }
  return faults
}

/** What a command says beside its target. */
export const commandShape = z
  .object({ reason: lineOf(500).optional().openapi({ description: 'Why; kept in the audit log.' }) })
  .strict()

const gatesShape = z
  .object({
    buckets: z.int().openapi({ description: 'How many gates the campaign has.' }),
    reached: z.int().openapi({ description: 'How many of them act by this state already.' }),
    reached_at: z.string().nullable().openapi({
      description:
        'When the last of them confirmed; null while some have not. They are retried until they do.',
    }),
  })
  .openapi('Gates')

export const campaignShape = z
  .object({
    id: z.string(),
    name: z.string(),
    mode: z.enum(['first_come', 'drip', 'ballot']),
    delivery: z.enum(['stream', 'direct']),
    store: z.string().openapi({ description: 'The Redis deployment that has its gates.' }),
    state: z.enum(['DRAFT', 'IN_REVIEW', 'APPROVED', 'ACTIVE', 'PAUSED', 'ENDED', 'VOIDED']),
    version: z.int().openapi({ description: 'Of this state: the ETag that If-Match must name.' }),
    config_version: z.int(),
    rule_version: z.int(),
    quota: z.int(),
    per_user_limit: z.int(),
    bucket_count: z.int(),
    starts_at: z.string(),
    ends_at: z.string(),
    time_zone: z.string(),
    tail_policy: z.enum(tailPolicies),
    drip: dripShape.optional(),
    pace: paceShape.optional(),
    rules: rulesShape,
    created_by: z.string(),
    approved_by: z.string().nullable(),
    created_at: z.string(),
    updated_at: z.string(),
    gates: gatesShape.optional(),
    closed_at: z.string().nullable().optional().openapi({
      description: 'After pause, end and void: when the last bucket closed; null while some have not.',
    }),
    buckets: z
      .array(z.object({ bucket: z.int(), closed_at: z.string().nullable() }))
      .optional()
      .openapi({ description: 'The same for each bucket.' }),
  })
  .openapi('Campaign')
export type CampaignAnswer = z.infer<typeof campaignShape>
export type Gates = z.infer<typeof gatesShape>
