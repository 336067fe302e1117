import { assertNever } from './assert.ts'

/**
 * The arbiter's decisions: one table from the letter in the script's reply to the public code, its HTTP status
 * and its words. The order is the precedence of DESIGN §4: the first that fits a claim is its verdict.
 */
export const decisions = {
  NOT_READY: {
    letter: 'N',
    status: 503,
    title: 'The campaign is not ready yet',
    detail: 'Its stock is being prepared. Try again with the same Idempotency-Key.',
  },
  REPLAYED: {
    letter: 'Y',
    status: 202,
    title: 'Accepted before',
    detail: 'The first acceptance is repeated.',
  },
  IDEMPOTENCY_MISMATCH: {
    letter: 'M',
    status: 422,
    title: 'This Idempotency-Key was used with other parameters',
    detail: 'Use a new Idempotency-Key for a different claim.',
  },
  TOKEN_USED: {
    letter: 'T',
    status: 409,
    title: 'This claim token was used already',
    detail:
      'It was accepted under another Idempotency-Key. Repeat that key to see the result, or fetch a new token.',
  },
  VOIDED: {
    letter: 'V',
    status: 410,
    title: 'The campaign was cancelled',
    detail: 'It gives no more coupons. Do not try again.',
  },
  ENDED: {
    letter: 'E',
    status: 410,
    title: 'The campaign is over',
    detail: 'It gives no more coupons. Do not try again.',
  },
  PAUSED: {
    letter: 'P',
    status: 503,
    title: 'The campaign is paused',
    detail: 'Try again later with the same Idempotency-Key.',
  },
  NOT_STARTED: {
    letter: 'S',
    status: 409,
    title: 'The campaign has not started',
    detail: 'Claim at starts_at by the server’s clock.',
  },
  BUSY: {
    letter: 'B',
    status: 503,
    title: 'Too many people at once',
    detail: 'Try again after retry_after_ms with the same Idempotency-Key.',
  },
  LIMIT_REACHED: {
    letter: 'L',
    status: 409,
    title: 'You have as many of these coupons as one person may have',
    detail: 'Look into your wallet.',
  },
  SOLD_OUT: {
    letter: 'O',
    status: 409,
    title: 'All coupons are gone',
    detail: 'Nothing was charged or used. More may be added: then the same Idempotency-Key may succeed.',
  },
  ACCEPTED: { letter: 'A', status: 202, title: 'Accepted', detail: 'The coupon is being issued.' },
} as const satisfies Record<string, { letter: string; status: number; title: string; detail: string }>

export type Decision = keyof typeof decisions
export type Refusal = Exclude<Decision, 'ACCEPTED' | 'REPLAYED'>

const byLetter = new Map<string, Decision>(
  (Object.keys(decisions) as Decision[]).map((decision) => [decisions[decision].letter, decision]),
)

/** @throws on a letter that no decision has: a reply that we don't understand is never guessed at. */
export function decisionOf(letter: string): Decision {
  const decision = byLetter.get(letter)
  if (decision === undefined) throw new Error(`unknown decision letter ${JSON.stringify(letter)}`)
  return decision
}

/** Whether the same claim with the same key may have another verdict soon, so that a client should come back. */
export function isRetryable(refusal: Refusal): boolean {
  switch (refusal) {
    case 'NOT_READY':
    case 'PAUSED':
    case 'BUSY':
    case 'NOT_STARTED':
      return true
    case 'IDEMPOTENCY_MISMATCH':
    case 'TOKEN_USED':
    case 'VOIDED':
    case 'ENDED':
    case 'LIMIT_REACHED':
    case 'SOLD_OUT':
      return false
    default:
      return assertNever(refusal, 'refusal')
  }
}
