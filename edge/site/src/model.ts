import type { ClaimRejection } from '../../../schema/states.ts'
import type { CampaignView } from '../../../schema/view.ts'
import { retryDelay } from './plan.ts'

/**
 * What the page knows and what can happen to it. Instants are milliseconds of the server's clock.
 * The page shows exactly one phase at a time; `machine.ts` moves it, `screen.ts` has its words, `controller.ts` does the effects.
 */
export type Phase =
  | 'loading'
  | 'offline'
  | 'missing'
  | 'signed_out'
  | 'upcoming'
  | 'challenge'
  | 'challenge_lost'
  | 'challenge_over'
  | 'open'
  | 'sending'
  | 'busy'
  | 'unknown'
  | 'paused'
  | 'accepted'
  | 'slow'
  | 'entered'
  | 'review'
  | 'delivered'
  | 'sold_out'
  | 'limit_reached'
  | 'not_eligible'
  | 'not_chosen'
  | 'rejected'
  | 'withdrawn'
  | 'ended'
  | 'failed'

export interface Coupon {
  couponId: string
  /** RFC 3339; absent where the answer did not tell. */
  validUntil?: string
}

/**
 * A check that the service wants solved before it gives a claim token. Its answer is good once, so it is in no model:
 * it goes straight into the request.
 */
export interface Challenge {
  /** Whose widget is to be shown; absent where the service did not say. */
  siteKey?: string
  /** What the answer is signed for. */
  action: string
  /** Grows whenever a fresh widget is needed. */
  round: number
  /** Why it is asked (again). */
  why: 'first' | 'wrong' | 'expired'
  /** An answer is on its way to the service. */
  checking: boolean
}

export interface Model {
  phase: Phase
  /** Present in the phases `challenge…`, and in no other. */
  challenge?: Challenge
  /** Answers that the service did not believe, since the last that it did. */
  challengeTries: number
  view?: CampaignView
  /** Undefined until it is known. */
  signedIn?: boolean
  /** Pressed, and no final answer yet: the page goes on by itself until there is one. */
  pending: boolean
  /** A claim went out and its answer got lost, so the server may have accepted it; only a final answer ends this. */
  unheard: boolean
  /** Tries since the press that ended without a final answer. */
  attempt: number
  retryAt?: number
  triedAt?: number
  /** The token was replaced once for this try; a second refusal of a token is final. */
  tokenRenewed: boolean
  acceptedAt?: number
  coupon?: Coupon
  /** Coupons of this campaign that this browser saw delivered. */
  owned: number
}

/** A refusal's code, as in the API documentation, or a status that carried none. */
export interface Refused {
  code: string
  retryAfterMs?: number
  startsAt?: string
  /** With CHALLENGE_REQUIRED. */
  siteKey?: string
  action?: string
}

export type Settled =
  | { status: 'DELIVERED'; coupon: Coupon }
  | { status: 'REJECTED'; reason: ClaimRejection | string }
  | { status: 'REVIEW' }
  | { status: 'PROCESSING' }

export type Happening =
  | { type: 'view'; view: CampaignView }
  /** The view could not be had; `refused` when the service said so. */
  | { type: 'view_lost'; refused?: Refused }
  | { type: 'login'; signedIn: boolean }
  /** The answer to a `relogin`: whether the shop gave a fresh login of the same reader. */
  | { type: 'relogin'; renewed: boolean }
  | { type: 'due' }
  | { type: 'press' }
  | { type: 'another' }
  | { type: 'online' }
  /** No answer came; `sent`: to the claim itself, not only to the request for its token. */
  | { type: 'lost'; sent: boolean }
  | { type: 'refused'; refused: Refused }
  /** The widget gave an answer. */
  | { type: 'challenge_solved'; answer: string }
  /** Its answer, or the time to solve it, ran out. */
  | { type: 'challenge_expired' }
  /** It can't be shown: blocked, offline, unsupported. */
  | { type: 'challenge_failed' }
  /** The service believed the answer: the claim token is there. */
  | { type: 'challenge_passed' }
  | { type: 'accepted'; at: number }
  | { type: 'settled'; settled: Settled }
  | { type: 'resume'; kept: Kept }

/** What was stored of an earlier claim; at most one of coupon, acceptedAt and pending counts, in this order. */
export interface Kept {
  coupon?: Coupon
  acceptedAt?: number
  pending: boolean
  unheard: boolean
  owned: number
}

export type Effect =
  /** Claims with the stored key; `renew` first replaces the claim token. */
  | { type: 'claim'; renew: boolean }
  /** Asks for the claim token with this answer to the challenge. */
  | { type: 'answer'; answer: string }
  | { type: 'look' }
  | { type: 'watch' }
  /** Drops the stored claim, so that the next one has a new key. */
  | { type: 'forget' }
  /** The login was refused: asks the shop for a fresh one, once. */
  | { type: 'relogin' }

export interface Context {
  now: number
  /** Uniform in [0, 1). */
  random: number
}

export type Step = [Model, Effect[]]

export const start: Model = {
  phase: 'loading',
  pending: false,
  unheard: false,
  attempt: 0,
  tokenRenewed: false,
  challengeTries: 0,
  owned: 0,
}

/** The model with nothing under way. */
export function idle(model: Model): Model {
  const { retryAt: _retry, acceptedAt: _accepted, coupon: _coupon, ...rest } = model
  return { ...rest, pending: false, unheard: false, attempt: 0, tokenRenewed: false }
}

export function final(model: Model, phase: Phase): Model {
  return { ...idle(model), phase }
}

export function wait(model: Model, phase: Phase, retryAfterMs: number | undefined, context: Context): Model {
  const delay = retryDelay(model.attempt, retryAfterMs, context.random)
  return { ...model, phase, attempt: model.attempt + 1, retryAt: context.now + delay, triedAt: context.now }
}
