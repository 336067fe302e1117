import type { CampaignSnapshot } from '../schema/view.ts'

/** For this folder's tests. */

export const hourMs = 3_600_000

/** A campaign from 10:00 to 12:00 of the epoch's first day. */
export function campaign(more: Partial<CampaignSnapshot> = {}): CampaignSnapshot {
  return {
    id: 'c1',
    name: 'Night market',
    mode: 'first_come',
    state: 'ACTIVE',
    config_version: 3,
    starts_at_ms: 10 * hourMs,
    ends_at_ms: 12 * hourMs,
    per_user_limit: 1,
    bucket_count: 4,
    benefit: { kind: 'fixed_price', price: { currency: 'CNY', minor: '990' } },
    validity: { kind: 'days', days: 7 },
    time_zone: 'Asia/Shanghai',
    sold_out: false,
    ...more,
  }
}
