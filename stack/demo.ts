import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { until } from './process.ts'
import type { Stack } from './stack.ts'

export interface DemoOptions {
  /** Seconds until it opens; 0: at once. */
  opensInS: number
  quota: number
  /** Make a new one even if the former one is still open. */
  fresh: boolean
}

export interface Demo {
  campaignId: string
  /** Whether it is the one of an earlier start. */
  reused: boolean
}

/** What the core answers about a campaign, as far as it is needed here. */
interface Campaign {
  id: string
  version: number
}

const DAY_MS = 86_400_000

/** The logins of two people, since whoever makes a campaign never approves it. */
const STAFF = { operator: 'demo-operator', approver: 'demo-approver' } as const

async function command(
  stack: Stack,
  role: keyof typeof STAFF,
  path: string,
  body: unknown,
  version?: number,
): Promise<Campaign> {
  const login = await stack.mintLogin({ user: STAFF[role], role, ttl_s: 60 })
  const response = await fetch(`${stack.endpoints.core}/admin/v1/campaigns${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${login}`,
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
      ...(version === undefined ? {} : { 'if-match': `"${version}"` }),
    },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(20_000),
  })
  if (!response.ok)
    throw new Error(
      `The demo campaign could not be made: POST ${path || '/'} gave ${response.status}: ${await response.text()}`,
    )
  return (await response.json()) as Campaign
}

function draft({ opensInS, quota }: DemoOptions): unknown {
  const startsAt = Date.now() + opensInS * 1000
  return {
    name: 'Demo: 20 off over 100',
    quota,
    per_user_limit: 1,
    starts_at: new Date(startsAt).toISOString(),
    ends_at: new Date(startsAt + 7 * DAY_MS).toISOString(),
    time_zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    rules: {
      benefit: {
        kind: 'amount_off',
        amount: { currency: 'CNY', minor: '2000' },
        threshold: { currency: 'CNY', minor: '10000' },
      },
      validity: { kind: 'days', days: 30 },
    },
  }
}

/** How the edge shows a campaign; undefined when it doesn't know it. */
async function availability(stack: Stack, campaignId: string): Promise<string | undefined> {
  const response = await fetch(`${stack.endpoints.edge}/v1/campaigns/${campaignId}`, {
    signal: AbortSignal.timeout(5_000),
  })
  if (response.status !== 200) return undefined
  return ((await response.json()) as { availability: string }).availability
}

function isClaimable(shown: string | undefined): boolean {
  return shown === 'open' || shown === 'upcoming'
}

function remembered(file: string): string | undefined {
  try {
    return (JSON.parse(readFileSync(file, 'utf8')) as { campaign_id: string }).campaign_id
  } catch {
    return undefined
  }
}

/**
 * Gives a campaign to try: the one of an earlier start while coupons of it can still be had, else a new one,
 * which goes through the admin API as any other would: drafted, submitted, approved by somebody else, published.
 * @throws when the core refuses a step, with its answer.
 */
export async function demoCampaign(stack: Stack, options: DemoOptions): Promise<Demo> {
  const file = join(stack.dir, 'demo.json')
  const former = options.fresh ? undefined : remembered(file)
  if (former !== undefined && isClaimable(await availability(stack, former)))
    return { campaignId: former, reused: true }
  const drafted = await command(stack, 'operator', '', draft(options))
  const submitted = await command(stack, 'operator', `/${drafted.id}/submit`, {}, drafted.version)
  const approved = await command(stack, 'approver', `/${drafted.id}/approve`, {}, submitted.version)
  await command(stack, 'operator', `/${drafted.id}/publish`, {}, approved.version)
  const shown = async () => isClaimable(await availability(stack, drafted.id))
  await until(shown, `the edge does not show campaign ${drafted.id}`, 15_000, 100)
  writeFileSync(file, JSON.stringify({ campaign_id: drafted.id }))
  return { campaignId: drafted.id, reused: false }
}
