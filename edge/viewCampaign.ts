import { hash53 } from '../schema/hash.ts'
import { limits } from '../schema/limits.ts'
import { availabilityOf, type CampaignSnapshot, type CampaignView } from '../schema/view.ts'
import type { Campaigns } from './campaigns.ts'
import type { Lifetime } from './lifetime.ts'
import { instant, type Refuse } from './refusal.ts'

export interface ViewParts {
  readonly campaigns: Campaigns
  readonly refuse: Refuse
  clock(): number
}

/** `GET /v1/campaigns/{id}`: 200 CampaignView or 304; CAMPAIGN_NOT_FOUND. @throws Away */
export async function viewCampaign(
  { campaigns, refuse, clock }: ViewParts,
  request: Request,
  lifetime: Lifetime,
  campaignId: string,
): Promise<Response> {
  const snapshot = await campaigns.find(campaignId, lifetime)
  if (snapshot === undefined) return refuse('CAMPAIGN_NOT_FOUND')
  const nowMs = clock()
  const view = viewOf(snapshot, nowMs)
  const etag = etagOf(view)
  const headers: Record<string, string> = {
    ETag: etag,
    'Cache-Control': `public, max-age=${maxAgeSeconds(snapshot, nowMs)}`,
  }
  if (matches(request.headers.get('If-None-Match'), etag)) return new Response(null, { status: 304, headers })
  headers['Content-Type'] = 'application/json'
  return new Response(JSON.stringify(view), { headers })
}

export function viewOf(snapshot: CampaignSnapshot, nowMs: number): CampaignView {
  return {
    id: snapshot.id,
    name: snapshot.name,
    mode: snapshot.mode,
    availability: availabilityOf(snapshot, nowMs),
    starts_at: instant(snapshot.starts_at_ms),
    ends_at: instant(snapshot.ends_at_ms),
    server_time: instant(nowMs),
    per_user_limit: snapshot.per_user_limit,
    benefit: snapshot.benefit,
    validity: snapshot.validity,
    time_zone: snapshot.time_zone,
    token_opens_at: instant(snapshot.starts_at_ms - limits.tokenLeadMs),
    ...(snapshot.ballot === undefined ? {} : { ballot: snapshot.ballot }),
  }
}

/** Weak: two views that differ in server_time only are the same to a reader. */
export function etagOf(view: CampaignView): string {
  const { server_time: _, ...lasting } = view
  return `W/"${hash53(JSON.stringify(lasting)).toString(36)}"`
}

/** No cache carries a view over the instant at which the campaign opens or ends. */
function maxAgeSeconds(snapshot: CampaignSnapshot, nowMs: number): number {
  const untilChange = [snapshot.starts_at_ms - nowMs, snapshot.ends_at_ms - nowMs].filter((ms) => ms > 0)
  return Math.floor(Math.min(limits.viewTtlMs, ...untilChange) / 1000)
}

/** RFC 9110 §13.1.2: any of the list, compared weakly. */
export function matches(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false
  if (ifNoneMatch.trim() === '*') return true
  const opaque = etag.replace(/^W\//, '')
  return ifNoneMatch.split(',').some((one) => one.trim().replace(/^W\//, '') === opaque)
}
