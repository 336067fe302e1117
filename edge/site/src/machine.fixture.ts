import type { CampaignView } from '../../../schema/view.ts'
import { step } from './machine.ts'
import { type Happening, type Model, type Step, start } from './model.ts'

/** What the tests of the machine share: one campaign, and a way to let things happen to the page. */

export const minute = 60_000
export const startsAt = Date.parse('2026-12-05T02:00:00Z')
export const endsAt = startsAt + 60 * minute

export function viewOf(overrides: Partial<CampaignView> = {}): CampaignView {
  const iso = (at: number) => new Date(at).toISOString()
  return {
    id: 'c1',
    name: 'Coffee',
    mode: 'first_come',
    availability: 'open',
    starts_at: iso(startsAt),
    ends_at: iso(endsAt),
    server_time: iso(startsAt),
    per_user_limit: 1,
    benefit: { kind: 'fixed_price', price: { currency: 'EUR', minor: '100' } },
    validity: { kind: 'days', days: 30 },
    time_zone: 'Asia/Shanghai',
    token_opens_at: iso(startsAt - 10 * minute),
    ...overrides,
  }
}

export interface Run {
  model: Model
  effects: string[]
}

/** Runs happenings one after the other; effects of the last one. */
export function run(now: number, happenings: Happening[], from: Model = start, random = 0): Run {
  let last: Step = [from, []]
  for (const happening of happenings) last = step(last[0], happening, { now, random })
  return { model: last[0], effects: last[1].map((effect) => effect.type) }
}

export const signedIn: Happening = { type: 'login', signedIn: true }
export const view = (overrides: Partial<CampaignView> = {}): Happening => ({
  type: 'view',
  view: viewOf(overrides),
})
export const refusal = (code: string, more = {}): Happening => ({
  type: 'refused',
  refused: { code, ...more },
})
