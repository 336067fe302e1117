import type { Guards } from './guards.ts'
import type { AllocationMode, Availability, Benefit, Delivery, Validity } from './rules.ts'
import type { CampaignState } from './states.ts'

/** `GET /v1/campaigns/{id}` (DESIGN §7). Instants are RFC 3339 UTC. */
export interface CampaignView {
  id: string
  name: string
  mode: AllocationMode
  availability: Availability
  starts_at: string
  ends_at: string
  server_time: string
  per_user_limit: number
  benefit: Benefit
  validity: Validity
  /** IANA name of the shop's zone, for showing dates. */
  time_zone: string
  /** Claim tokens can be fetched from here on. */
  token_opens_at: string
  /** Of a ballot: the hash of its seed, and after the draw how many took part. */
  ballot?: BallotHint
}

export interface BallotHint {
  seed_hash: string
  entrants_count?: number
}

/** What the core tells the edge about a campaign; the view is derived from it at the moment of the answer. */
export interface CampaignSnapshot {
  id: string
  name: string
  mode: AllocationMode
  state: CampaignState
  config_version: number
  starts_at_ms: number
  ends_at_ms: number
  per_user_limit: number
  bucket_count: number
  /** How claims become coupons; `stream` when it does not say. */
  delivery?: Delivery
  benefit: Benefit
  validity: Validity
  time_zone: string
  /** All buckets are empty, at this epoch: a hint for the view only, never a decision. */
  sold_out: boolean
  ballot?: BallotHint
  /** What guards its claims beside the arbiter; none when the rules say nothing of it. */
  guards?: Guards | undefined
}

/** Half open: open from starts_at to just before ends_at. VOIDED shows as ended; never shown before APPROVED. */
export function availabilityOf(snapshot: CampaignSnapshot, nowMs: number): Availability {
  if (snapshot.state === 'ENDED' || snapshot.state === 'VOIDED' || nowMs >= snapshot.ends_at_ms)
    return 'ended'
  if (snapshot.state === 'PAUSED') return 'paused'
  if (nowMs < snapshot.starts_at_ms || snapshot.state !== 'ACTIVE') return 'upcoming'
  return snapshot.sold_out ? 'sold_out' : 'open'
}
