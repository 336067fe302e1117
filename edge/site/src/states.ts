import type { Benefit } from '../../../schema/rules.ts'
import type { CampaignView } from '../../../schema/view.ts'
import { type Challenge, type Model, type Phase, start } from './model.ts'

/**
 * Every state of the page on demand, as `/c/{id}?state=sold_out` on 127.0.0.1: for looking at and for tests.
 * A module of its own that only a local page loads. Time stands still, so that pictures can be compared.
 */
export interface Shown {
  model: Model
  /** Server's time, ms. */
  now: number
  deviceAhead: number
}

const minute = 60_000
const startsAt = Date.parse('2026-12-05T02:00:00Z')
const endsAt = startsAt + 36 * 60 * minute

const view: CampaignView = {
  id: 'c0000000000000000example00',
  name: 'Winter morning coffee',
  mode: 'first_come',
  availability: 'open',
  starts_at: new Date(startsAt).toISOString(),
  ends_at: new Date(endsAt).toISOString(),
  server_time: new Date(startsAt).toISOString(),
  per_user_limit: 1,
  benefit: {
    kind: 'amount_off',
    amount: { currency: 'CNY', minor: '2000' },
    threshold: { currency: 'CNY', minor: '10000' },
  },
  validity: { kind: 'days', days: 30 },
  time_zone: 'Asia/Shanghai',
  token_opens_at: new Date(startsAt - 10 * minute).toISOString(),
}

const benefits: Record<string, Benefit> = {
  percent: {
    kind: 'percent_off',
    basis_points: 1250,
    cap: { currency: 'EUR', minor: '5000' },
    threshold: { currency: 'EUR', minor: '20000' },
  },
  price: { kind: 'fixed_price', price: { currency: 'JPY', minor: '128000' } },
  shipping: { kind: 'free_shipping', threshold: { currency: 'USD', minor: '3550' } },
  large: {
    kind: 'amount_off',
    amount: { currency: 'KWD', minor: '1234500' },
    threshold: { currency: 'KWD', minor: '10000000' },
  },
}

const names: Record<string, string> = { en: 'Winter morning coffee', zh: '冬日早晨咖啡' }

const asked: Challenge = { action: 'claim-token', round: 1, why: 'first', checking: false }

/** What a state needs beyond its phase. */
const extras: Partial<Record<Phase, Partial<Model>>> = {
  busy: { pending: true, retryAt: startsAt + 3 * minute + 3_000 },
  offline: { retryAt: startsAt + 3 * minute + 5_000 },
  unknown: { pending: true, unheard: true, retryAt: startsAt + 3 * minute + 2_000 },
  paused: { retryAt: startsAt + 3 * minute + 20_000 },
  sending: { pending: true },
  challenge: { challenge: asked },
  challenge_lost: { challenge: asked },
  challenge_over: { challenge: asked, retryAt: startsAt + 3 * minute + 24_000 },
  accepted: { acceptedAt: startsAt + 3 * minute },
  slow: { acceptedAt: startsAt + 2 * minute },
  delivered: {
    coupon: { couponId: 'example', validUntil: new Date(startsAt + 30 * 24 * 60 * minute).toISOString() },
    owned: 1,
  },
}

interface Variant {
  phase: Phase
  view?: Partial<CampaignView>
  model?: Partial<Model>
  at?: number
  ahead?: number
}

/** Variants of a phase, by the name that follows it in `?state=`. */
const variants: Record<string, Variant> = {
  upcoming_later: { phase: 'upcoming', at: startsAt - 51 * 60 * minute },
  upcoming_soon: { phase: 'upcoming', at: startsAt - 14_000 },
  clock_off: { phase: 'upcoming', ahead: 4 * minute },
  signed_out_upcoming: { phase: 'signed_out', at: startsAt - 5 * minute },
  challenge_early: { phase: 'challenge', at: startsAt - 4 * minute },
  challenge_pending: { phase: 'challenge', model: { pending: true } },
  challenge_wrong: { phase: 'challenge', model: { challenge: { ...asked, why: 'wrong' } } },
  challenge_expired: { phase: 'challenge', model: { challenge: { ...asked, why: 'expired' } } },
  challenge_checking: { phase: 'challenge', model: { challenge: { ...asked, checking: true } } },
  open_several: { phase: 'open', view: { per_user_limit: 3 } },
  open_ballot: { phase: 'open', view: { mode: 'ballot' } },
  delivered_several: { phase: 'delivered', view: { per_user_limit: 3 } },
}

/**
 * @param name a phase, or one of the variants above
 * @param query `benefit=percent|price|shipping|large` shows another benefit; `lang` names the campaign in it
 * @throws on a name that is no state
 */
export function stateOf(name: string, query: URLSearchParams): Shown {
  const variant = variants[name]
  const phase = variant?.phase ?? (name as Phase)
  if (variant === undefined && !isPhase(phase)) throw new Error(`no such state: ${name}`)
  const at = variant?.at ?? startsAt + (phase === 'upcoming' ? -4 * minute - 5_000 : 3 * minute)
  const known = phase !== 'missing' && !(phase === 'loading' || phase === 'offline')
  const shownView: CampaignView = {
    ...view,
    name: names[query.get('lang') ?? 'en'] ?? view.name,
    benefit: benefits[query.get('benefit') ?? ''] ?? view.benefit,
    ...variant?.view,
  }
  return {
    model: {
      ...start,
      signedIn: phase !== 'signed_out',
      phase,
      ...(known ? { view: shownView } : {}),
      ...extras[phase],
      ...variant?.model,
    },
    now: at,
    deviceAhead: variant?.ahead ?? 0,
  }
}

const everyPhase: Record<Phase, true> = {
  loading: true,
  offline: true,
  missing: true,
  signed_out: true,
  upcoming: true,
  challenge: true,
  challenge_lost: true,
  challenge_over: true,
  open: true,
  sending: true,
  busy: true,
  unknown: true,
  paused: true,
  accepted: true,
  slow: true,
  entered: true,
  review: true,
  delivered: true,
  sold_out: true,
  limit_reached: true,
  not_eligible: true,
  not_chosen: true,
  rejected: true,
  withdrawn: true,
  ended: true,
  failed: true,
}
const phases = new Set(Object.keys(everyPhase))

/** Whether this name is a phase of its own, and not a variant of one. */
export function isPhase(name: string): name is Phase {
  return phases.has(name)
}

/** Every name that `?state=` takes. */
export const stateNames: string[] = [...phases, ...Object.keys(variants)]
