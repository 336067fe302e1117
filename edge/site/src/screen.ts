import type { CampaignView } from '../../../schema/view.ts'
import { brand } from '../brand.ts'
import {
  benefitLines,
  countdown,
  days,
  type Language,
  moment,
  roughDuration,
  timeWithSeconds,
  when,
  zonesDiffer,
} from './format.ts'
import { mayHaveAnother } from './machine.ts'
import type { Model, Phase } from './model.ts'
import { fill, type StatusKey, type Words, words } from './words.ts'

/** What stands on the page, as data: a pure function of the model, the server's time and the language. */
export interface Screen {
  phase: Phase
  tone: Tone
  /** Height of the tide on the ticket, percent (its crest passes the edge at 112): how far the reader has come. */
  level: number
  title: string
  name: string
  benefit: [string, string]
  /** The status line, around seconds that tick without being announced again. */
  status: { before: string; count: string; after: string }
  /** Heading of the check, while one is to be solved. */
  check?: string
  action?: Action
  another?: string
  stub: Fact[]
  terms: Fact[]
  termsTitle: string
  clock: string
  otherLanguage: string
}

export type Tone = 'calm' | 'go' | 'wait' | 'yours' | 'over'
export type Fact = [label: string, value: string]
export interface Action {
  label: string
  /** A ticking part of the label, in tabular numerals. */
  time?: string
  /** Leads there; without it the action is a button. */
  href?: string
  enabled: boolean
  /** How much of a wait is over, 0 to 1. */
  progress?: number
}

const tones: Record<Phase, [Tone, level: number]> = {
  loading: ['calm', 10],
  offline: ['wait', 10],
  missing: ['over', 4],
  signed_out: ['calm', 5],
  upcoming: ['calm', 5],
  challenge: ['go', 25],
  challenge_lost: ['wait', 25],
  challenge_over: ['wait', 25],
  open: ['go', 27],
  sending: ['go', 33],
  busy: ['wait', 33],
  unknown: ['wait', 33],
  paused: ['wait', 5],
  accepted: ['go', 72],
  slow: ['go', 78],
  entered: ['go', 72],
  review: ['wait', 72],
  delivered: ['yours', 112],
  limit_reached: ['yours', 112],
  sold_out: ['over', 5],
  not_eligible: ['over', 5],
  not_chosen: ['over', 5],
  rejected: ['over', 5],
  withdrawn: ['over', 5],
  ended: ['over', 5],
  failed: ['wait', 27],
}

const risingMs = 10 * 60_000
const risenLevel = 25
const lastMinuteMs = 60_000

export interface Surroundings {
  /** Server's time, ms. */
  now: number
  language: Language
  /** How far the device's clock is ahead of the server's, when it matters; else 0. */
  deviceAhead: number
  /** Path to come back to after signing in. */
  returnTo: string
}

export function screenOf(model: Model, around: Surroundings): Screen {
  const text = words[around.language]
  const view = model.view
  const benefit: [string, string] = view ? benefitLines(view.benefit, around.language) : ['', '']
  const headline = headlineOf(model, benefit, text)
  const [tone] = tones[model.phase]
  const action = actionOf(model, around, text)
  return {
    phase: model.phase,
    tone,
    level: levelOf(model, around.now),
    title: `${headline.filter(Boolean).join(around.language === 'en' ? ' ' : '，')} · ${brand.name}`,
    name: benefit[0] === '' ? '' : (view?.name ?? ''),
    benefit: headline,
    status: statusOf(model, around, text),
    ...(model.phase === 'challenge' ? { check: text.fact.check } : {}),
    ...(action ? { action } : {}),
    ...(mayHaveAnother(model) ? { another: text.action.another } : {}),
    stub: view ? stubOf(view, model, around, text) : [],
    terms: view ? termsOf(view, model, around, text) : [],
    termsTitle: text.fact.terms,
    clock: clockOf(around, text),
    otherLanguage: text.otherLanguage,
  }
}

/** The largest words: the benefit; the campaign's name where its benefit is of a kind that has no words here. */
function headlineOf({ phase, view }: Model, benefit: [string, string], text: Words): [string, string] {
  if (phase === 'missing') return [text.nothing, '']
  return benefit[0] === '' ? [view?.name ?? text.untitled, ''] : benefit
}

function levelOf(model: Model, now: number): number {
  const level = tones[model.phase][1]
  if (model.phase !== 'upcoming' || !model.view) return level
  const left = Date.parse(model.view.starts_at) - now
  const risen = Math.min(1, Math.max(0, 1 - left / risingMs))
  return Math.round(level + (risenLevel - level) * risen)
}

function secondsLeft(model: Model, now: number): number {
  return Math.max(1, Math.ceil(((model.retryAt ?? now) - now) / 1000))
}

function statusOf(model: Model, around: Surroundings, text: Words): Screen['status'] {
  const { now, language } = around
  const key = statusKey(model, now)
  const values: Record<string, string> = {}
  if (model.view) {
    const instant = key === 'entered' || key === 'open_ballot' ? model.view.ends_at : model.view.starts_at
    values['t'] = when(Date.parse(instant), now, language)
    if (key === 'open_several') values['n'] = String(model.view.per_user_limit)
  }
  if (model.coupon?.validUntil) values['t'] = moment(Date.parse(model.coupon.validUntil), now, language)
  const [before = '', after] = fill(text.status[key], values).split('{n}')
  return after === undefined
    ? { before, count: '', after: '' }
    : { before, count: String(secondsLeft(model, now)), after }
}

function statusKey(model: Model, now: number): StatusKey {
  const { phase, view } = model
  const later = view !== undefined && when(Date.parse(view.starts_at), now, 'en').length > '10:00'.length
  switch (phase) {
    case 'upcoming':
      return model.pending ? 'upcoming_early' : later ? 'upcoming_later' : 'upcoming'
    case 'challenge':
      return challengeKey(model, now)
    case 'open':
      if (view?.mode === 'ballot') return 'open_ballot'
      return view && view.per_user_limit > 1 ? 'open_several' : 'open'
    case 'signed_out':
      if (!view || now >= Date.parse(view.starts_at)) return 'signed_out'
      return later ? 'signed_out_later' : 'signed_out_upcoming'
    case 'paused':
      return model.pending ? 'paused_pending' : 'paused'
    case 'delivered':
      return model.coupon?.validUntil ? 'delivered' : 'delivered_plain'
    default:
      return phase
  }
}

function challengeKey({ challenge, pending, view }: Model, now: number): StatusKey {
  if (challenge?.checking) return 'challenge_checking'
  if (challenge?.why === 'wrong' || challenge?.why === 'expired') return `challenge_${challenge.why}`
  if (pending) return 'challenge_pending'
  return view !== undefined && now < Date.parse(view.starts_at) ? 'challenge' : 'challenge_open'
}

function actionOf(model: Model, around: Surroundings, { action }: Words): Action | undefined {
  const { now, language } = around
  const still = (label: string): Action => ({ label, enabled: false })
  const press = (label: string): Action => ({ label, enabled: true })
  const link = (label: string, href: string): Action => ({ label, href, enabled: true })
  switch (model.phase) {
    case 'loading':
      return still(action.loading)
    case 'challenge': {
      // Once it's open the check is what there is to do.
      const left = Date.parse(model.view?.starts_at ?? '') - now
      return left > 0 ? untilOpen(still(action.opens_in), left, language) : undefined
    }
    case 'upcoming':
      return untilOpen(still(action.opens_in), Date.parse(model.view!.starts_at) - now, language)
    case 'open':
      return press(model.view?.mode === 'ballot' ? action.enter : action.get)
    case 'sending':
      return still(action.sending)
    case 'unknown':
      return still(action.checking)
    case 'challenge_over':
    case 'busy':
    case 'offline': {
      const unit = language === 'en' ? 's' : '秒'
      return { ...still(action.again_in), time: `${secondsLeft(model, now)} ${unit}` }
    }
    case 'paused':
      return press(action.look)
    case 'challenge_lost':
    case 'failed':
      return press(action.retry)
    case 'signed_out':
      return link(action.sign_in, brand.links.signIn(around.returnTo))
    case 'delivered':
      return link(action.use, brand.links.use(model.coupon!.couponId))
    case 'limit_reached':
      return link(action.mine, brand.links.coupons)
    case 'accepted':
    case 'slow':
    case 'entered':
    case 'review':
      return undefined
    default:
      return link(action.others, brand.links.others)
  }
}

function untilOpen(action: Action, left: number, language: Language): Action {
  const progress = Math.min(1, Math.max(0, 1 - left / lastMinuteMs))
  return { ...action, time: countdown(left, language), progress }
}

/** The two facts on the ticket's stub: until when to act, and how long it is good for. */
function stubOf(view: CampaignView, model: Model, around: Surroundings, { fact }: Words): Fact[] {
  const { now, language } = around
  const [starts, ends] = [Date.parse(view.starts_at), Date.parse(view.ends_at)]
  const window: Fact =
    now < starts
      ? [fact.opens, when(starts, now, language)]
      : [now < ends && model.phase !== 'ended' ? fact.ends : fact.ended, when(ends, now, language)]
  if (model.coupon?.validUntil) {
    return [window, [fact.valid_until, moment(Date.parse(model.coupon.validUntil), now, language)]]
  }
  const validity: Fact =
    view.validity.kind === 'days'
      ? [fact.validity, days(view.validity.days, language)]
      : [fact.valid_until, moment(Date.parse(view.validity.to), now, language)]
  return [window, validity]
}

function termsOf(view: CampaignView, model: Model, around: Surroundings, { fact }: Words): Fact[] {
  const { now, language } = around
  const range = (from: string, to: string): Fact[] => {
    const inZone = (zone?: string) =>
      fill(fact.from_to, {
        t: moment(Date.parse(from), now, language, zone),
        u: moment(Date.parse(to), now, language, zone),
      })
    return zonesDiffer(Date.parse(from), view.time_zone)
      ? [
          ['', inZone()],
          [`${fact.shop_time} (${view.time_zone})`, inZone(view.time_zone)],
        ]
      : [['', inZone()]]
  }
  const named = (label: string, [first, ...more]: Fact[]): Fact[] => [[label, first![1]], ...more]
  const terms: Fact[] = named(fact.claiming, range(view.starts_at, view.ends_at))
  if (view.validity.kind === 'fixed') {
    terms.push(...named(fact.validity, range(view.validity.from, view.validity.to)))
  } else {
    terms.push([fact.validity, fill(fact.days, { t: days(view.validity.days, language) })])
    const until = model.coupon?.validUntil
    if (until && zonesDiffer(Date.parse(until), view.time_zone)) {
      terms.push([fact.valid_until, moment(Date.parse(until), now, language)])
      const there = moment(Date.parse(until), now, language, view.time_zone)
      terms.push([`${fact.shop_time} (${view.time_zone})`, there])
    }
  }
  terms.push([fact.per_person, fill(fact.limit, { n: String(view.per_user_limit) })])
  terms.push([fact.allocation, fact[view.mode] ?? fact.first_come])
  return terms
}

function clockOf({ deviceAhead, now, language }: Surroundings, { clock }: Words): string {
  if (deviceAhead === 0) return ''
  const lead = fill(clock[deviceAhead > 0 ? 'fast' : 'slow'], { t: roughDuration(deviceAhead, language) })
  return `${lead} ${timeWithSeconds(now, language)}`
}
