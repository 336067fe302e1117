import { assertNever } from '../../../schema/assert.ts'
import { challenged, heard, isChallenge, oncemore } from './challenged.ts'
import { endOf, rejectionOf } from './ends.ts'
import {
  type Context,
  type Effect,
  final,
  type Happening,
  idle,
  type Kept,
  type Model,
  type Phase,
  type Refused,
  type Settled,
  type Step,
  wait,
} from './model.ts'
import { lookAgainDelay, retryDelay } from './plan.ts'

const slowAfterMs = 10_000
/** An answer that says "not yet" by at most this much is a clock's fault: the page sends again by itself. */
const earlyPressMaxMs = 60_000
const lookByHandEveryMs = 2_000
const soonAfterOnlineMs = 1_000

/** Phases that only mirror the campaign, so that a new view or the passing of time may change them. */
const mirrors: ReadonlySet<Phase> = new Set<Phase>([
  'loading',
  'offline',
  'missing',
  'signed_out',
  'upcoming',
  'challenge',
  'challenge_lost',
  'challenge_over',
  'open',
  'busy',
  'paused',
  'sold_out',
  'ended',
])

/** Of these, those that only the campaign's end moves. */
const endingByThemselves: ReadonlySet<Phase> = new Set<Phase>([
  'open',
  'signed_out',
  'sold_out',
  'challenge',
  'challenge_lost',
])

/** The next instant at which time alone changes something, for one timer; undefined when nothing is due. */
export function nextMoment(model: Model): number | undefined {
  if (model.retryAt !== undefined) return model.retryAt
  if (model.phase === 'accepted') return model.acceptedAt! + slowAfterMs
  if (model.view === undefined || model.pending) return undefined
  // While it isn't known who reads, the start changes nothing; the login does.
  if (model.phase === 'upcoming')
    return model.signedIn === undefined ? undefined : Date.parse(model.view.starts_at)
  return endingByThemselves.has(model.phase) ? Date.parse(model.view.ends_at) : undefined
}

/** What becomes of the page after something happened, and what is to be done about it. */
export function step(model: Model, happening: Happening, context: Context): Step {
  const [next, effects] = stepInto(model, happening, context)
  if (next.challenge === undefined || isChallenge(next.phase)) return [next, effects]
  const { challenge: _left, ...rest } = next
  return [rest, effects]
}

function stepInto(model: Model, happening: Happening, context: Context): Step {
  switch (happening.type) {
    case 'view':
      return mirror({ ...model, view: happening.view }, context)
    case 'view_lost':
      return viewLost(model, happening.refused, context)
    case 'login':
      return mirror({ ...model, signedIn: happening.signedIn }, context)
    case 'relogin':
      return relogin(model, happening.renewed)
    case 'due':
      return due(model, context)
    case 'press':
      return press(model, context)
    case 'another':
      if (model.phase !== 'delivered') return [model, []]
      return mirror({ ...idle(model), phase: 'loading' }, context, [{ type: 'forget' }])
    case 'online':
      return online(model, context)
    case 'challenge_solved':
    case 'challenge_expired':
    case 'challenge_failed':
      return heard(model, happening)
    case 'challenge_passed':
      return passed(model, context)
    case 'lost': {
      if (!model.pending)
        return [model.challenge?.checking ? wait(model, 'offline', undefined, context) : model, []]
      const unheard = model.unheard || happening.sent
      return [wait({ ...model, unheard }, unheard ? 'unknown' : 'offline', undefined, context), []]
    }
    case 'refused':
      return refused(model, happening.refused, context)
    case 'accepted':
      return accepted(model, happening.at, context)
    case 'settled':
      return settled(model, happening.settled)
    case 'resume':
      return resume(model, happening.kept, context)
    default:
      return assertNever(happening, 'happening')
  }
}

/** Whether the offered coupon can be claimed once more by someone who has some already. */
export function mayHaveAnother(model: Model): boolean {
  return (
    model.phase === 'delivered' &&
    model.view?.availability === 'open' &&
    model.owned < model.view.per_user_limit
  )
}

function mirror(model: Model, context: Context, effects: Effect[] = []): Step {
  const view = model.view
  if (view === undefined || model.pending || !mirrors.has(model.phase)) return [model, effects]
  const { retryAt: _over, ...calm } = model
  const be = (phase: Phase): Step => [{ ...calm, attempt: 0, phase }, effects]
  if (view.availability === 'ended' || context.now >= Date.parse(view.ends_at)) return be('ended')
  if (view.availability === 'paused' && !isChallenge(model.phase)) {
    const retryAt = context.now + lookAgainDelay(model.attempt, context.random)
    return [{ ...calm, phase: 'paused', attempt: model.attempt + 1, retryAt, triedAt: context.now }, effects]
  }
  if (view.availability === 'sold_out') return be('sold_out')
  if (model.signedIn === undefined) return [model, effects]
  if (!model.signedIn) return be('signed_out')
  if (isChallenge(model.phase)) return [model, effects]
  return be(context.now < Date.parse(view.starts_at) ? 'upcoming' : 'open')
}

function viewLost(model: Model, refused: Refused | undefined, context: Context): Step {
  if (model.pending) return [model, []]
  if (refused?.code === 'CAMPAIGN_NOT_FOUND') return [final(model, 'missing'), []]
  if (model.phase === 'paused') return [wait(model, 'paused', refused?.retryAfterMs, context), []]
  const loading = model.phase === 'loading' || model.phase === 'offline' || model.phase === 'busy'
  if (!loading) return [model, []]
  return [wait(model, refused ? 'busy' : 'offline', refused?.retryAfterMs, context), []]
}

function resume(model: Model, kept: Kept, context: Context): Step {
  const resumed: Model = { ...idle(model), owned: kept.owned }
  if (kept.coupon) return [{ ...resumed, phase: 'delivered', coupon: kept.coupon }, []]
  if (kept.acceptedAt !== undefined) return accepted(resumed, kept.acceptedAt, context)
  if (!kept.pending) return [{ ...model, owned: kept.owned }, []]
  const phase = kept.unheard ? 'unknown' : 'busy'
  return [wait({ ...resumed, pending: true, unheard: kept.unheard }, phase, undefined, context), []]
}

function relogin(model: Model, renewed: boolean): Step {
  if (renewed) return [model, model.pending ? [{ type: 'claim', renew: true }] : []]
  // What is under way stays so: signing in goes on with it.
  const { pending, unheard } = model
  return [{ ...idle(model), phase: 'signed_out', signedIn: false, pending, unheard }, []]
}

function due(model: Model, context: Context): Step {
  if (model.retryAt !== undefined) return context.now < model.retryAt ? [model, []] : retry(model, context)
  if (model.phase === 'accepted') {
    return [context.now < model.acceptedAt! + slowAfterMs ? model : { ...model, phase: 'slow' }, []]
  }
  if (model.phase === 'sold_out') {
    // A refusal may know more than the view: only the campaign's end moves this phase by itself.
    const over = model.view !== undefined && context.now >= Date.parse(model.view.ends_at)
    return [over ? final(model, 'ended') : model, []]
  }
  return model.phase === 'upcoming' || endingByThemselves.has(model.phase)
    ? mirror(model, context)
    : [model, []]
}

function online(model: Model, context: Context): Step {
  if (model.phase === 'challenge_lost') return oncemore(model)
  if (model.retryAt === undefined || model.phase === 'challenge_over') return [model, []]
  const soon = context.now + context.random * soonAfterOnlineMs
  return [{ ...model, retryAt: Math.min(model.retryAt, soon) }, []]
}

/** The claim token is there: a claim pressed before goes on, and otherwise the button waits for its reader. */
function passed(model: Model, context: Context): Step {
  if (model.challenge?.checking !== true) return [model, []]
  const done: Model = { ...model, challengeTries: 0 }
  if (!model.pending) return mirror({ ...done, phase: 'loading' }, context)
  const phase = model.unheard ? 'unknown' : 'sending'
  return [{ ...done, phase, triedAt: context.now }, [{ type: 'claim', renew: false }]]
}

function retry(model: Model, context: Context): Step {
  if (model.phase === 'challenge_over') return oncemore(model)
  const { retryAt: _due, ...rest } = model
  const tried = { ...rest, triedAt: context.now }
  if (!model.pending) return [tried, [{ type: 'look' }]]
  return [{ ...tried, phase: model.unheard ? 'unknown' : 'sending' }, [{ type: 'claim', renew: false }]]
}

function press(model: Model, context: Context): Step {
  if (model.phase === 'open' || model.phase === 'failed') {
    const sending: Model = { ...idle(model), phase: 'sending', pending: true, triedAt: context.now }
    return [sending, [{ type: 'claim', renew: model.phase === 'failed' }]]
  }
  if (model.phase === 'challenge_lost') return oncemore(model)
  const mayLook = model.retryAt !== undefined && context.now >= (model.triedAt ?? 0) + lookByHandEveryMs
  return model.phase === 'paused' && mayLook ? retry(model, context) : [model, []]
}

function accepted(model: Model, at: number, context: Context): Step {
  const phase =
    model.view?.mode === 'ballot' ? 'entered' : context.now >= at + slowAfterMs ? 'slow' : 'accepted'
  return [{ ...final(model, phase), acceptedAt: at }, [{ type: 'watch' }]]
}

function refused(model: Model, refusal: Refused, context: Context): Step {
  const { code, retryAfterMs, startsAt } = refusal
  const end = endOf[code]
  if (end !== undefined) return [final(model, end), []]
  if (code === 'CHALLENGE_REQUIRED') return challenged(model, refusal, context)
  if (code === 'UNAUTHENTICATED') {
    const relogin: Effect[] = [{ type: 'relogin' }]
    if (model.challenge === undefined) return [model, relogin]
    return model.pending
      ? [{ ...model, phase: 'sending' }, relogin]
      : mirror({ ...model, phase: 'loading' }, context, relogin)
  }
  // An answer to a challenge that nobody judged: the next one is asked for when the service is back.
  if (!model.pending && model.challenge?.checking) return [wait(model, 'busy', retryAfterMs, context), []]
  // Before the press, a token that can't be had yet is the controller's to fetch again, not the reader's worry.
  if (!model.pending) return [model, []]
  switch (code) {
    case 'NOT_STARTED':
      return early(model, startsAt, context)
    case 'TOKEN_EXPIRED':
    case 'TOKEN_INVALID':
    case 'TOKEN_USED':
      return model.tokenRenewed
        ? [final(model, 'failed'), []]
        : [{ ...model, tokenRenewed: true }, [{ type: 'claim', renew: true }]]
    case 'BUSY':
    case 'NOT_READY':
    case 'RATE_LIMITED':
    case 'UNAVAILABLE':
      // Shed before it was decided: that says nothing about a claim whose answer got lost before.
      return [wait(model, model.unheard ? 'unknown' : 'busy', retryAfterMs, context), []]
    case 'PAUSED':
      return [wait(model, 'paused', retryAfterMs, context), []]
    case 'OUTCOME_UNKNOWN':
      return [wait({ ...model, unheard: true }, 'unknown', retryAfterMs, context), []]
    case 'IDEMPOTENCY_MISMATCH':
      return [final(model, 'failed'), [{ type: 'forget' }]]
    default:
      return [final(model, 'failed'), []]
  }
}

/** The server's clock decides: the press was early, and is sent again at the start if that is near. */
function early(model: Model, startsAt: string | undefined, context: Context): Step {
  const view = model.view && startsAt !== undefined ? { ...model.view, starts_at: startsAt } : model.view
  const at = view === undefined ? Number.NaN : Date.parse(view.starts_at)
  const moved: Model = view === undefined ? model : { ...model, view }
  if (!(at - context.now <= earlyPressMaxMs)) return mirror({ ...idle(moved), phase: 'upcoming' }, context)
  const pause = retryDelay(model.attempt, undefined, context.random) / 4
  const retryAt = Math.max(at, context.now) + pause
  return [{ ...moved, phase: 'upcoming', attempt: model.attempt + 1, retryAt, triedAt: context.now }, []]
}

function settled(model: Model, result: Settled): Step {
  switch (result.status) {
    case 'DELIVERED':
      return [{ ...final(model, 'delivered'), coupon: result.coupon, owned: model.owned + 1 }, []]
    case 'REJECTED':
      return [final(model, rejectionOf[result.reason] ?? 'rejected'), [{ type: 'forget' }]]
    case 'REVIEW':
      return [{ ...model, phase: 'review' }, []]
    case 'PROCESSING':
      return [model, []]
    default:
      return assertNever(result, 'result')
  }
}
