import type { Challenge, Context, Happening, Model, Phase, Refused, Step } from './model.ts'

/**
 * The check that may stand between a reader and the claim token: shown, solved, run out, not to be had, refused.
 * It is asked for when the token is, so before the opening wherever that can be, and it never claims anything.
 */

/** After so many answers that were not believed there is a rest: more of them would not be either. */
const triesMax = 3
const restMs = 30_000

export function isChallenge(phase: Phase): boolean {
  return phase === 'challenge' || phase === 'challenge_lost' || phase === 'challenge_over'
}

/** The service asks for the check, and asks again when it did not believe the answer. */
export function challenged(model: Model, refused: Refused, context: Context): Step {
  const wanted = model.pending || model.phase === 'upcoming' || model.phase === 'open'
  if (!wanted && !isChallenge(model.phase)) return [model, []]
  const wrong = model.challenge?.checking === true
  const challenge: Challenge = {
    ...(refused.siteKey === undefined ? {} : { siteKey: refused.siteKey }),
    action: refused.action ?? '',
    round: (model.challenge?.round ?? 0) + 1,
    why: wrong ? 'wrong' : 'first',
    checking: false,
  }
  const { retryAt: _over, ...rest } = model
  const challengeTries = model.challengeTries + (wrong ? 1 : 0)
  if (challengeTries < triesMax) return [{ ...rest, phase: 'challenge', challenge, challengeTries }, []]
  const retryAt = context.now + restMs
  const triedAt = context.now
  return [{ ...rest, phase: 'challenge_over', challenge, challengeTries: 0, retryAt, triedAt }, []]
}

/** What the widget says. Once an answer is on its way, only the service's word counts. */
export function heard(
  model: Model,
  happening: Extract<Happening, { type: 'challenge_solved' | 'challenge_expired' | 'challenge_failed' }>,
): Step {
  const { challenge } = model
  if (model.phase !== 'challenge' || challenge === undefined || challenge.checking) return [model, []]
  switch (happening.type) {
    case 'challenge_solved': {
      const checking: Model = { ...model, challenge: { ...challenge, checking: true } }
      return [checking, [{ type: 'answer', answer: happening.answer }]]
    }
    case 'challenge_expired':
      return oncemore(model, 'expired')
    default:
      return [{ ...model, phase: 'challenge_lost' }, []]
  }
}

/** A fresh widget. */
export function oncemore(model: Model, why: Challenge['why'] = 'first'): Step {
  const { challenge, retryAt: _over, ...rest } = model
  if (challenge === undefined) return [model, []]
  const round = challenge.round + 1
  return [{ ...rest, phase: 'challenge', challenge: { ...challenge, round, why, checking: false } }, []]
}
