import type { ProblemCode, ProblemExtras } from '../../schema/problem.ts'

/** A guard's refusal, as its caller answers it. */
export interface Refused {
  readonly code: ProblemCode
  readonly extras?: ProblemExtras
}

export function rateLimited(waitMs: number): Refused {
  return { code: 'RATE_LIMITED', extras: { retry_after_ms: waitMs } }
}

/** Why a user is not eligible, in words that anybody may hear. */
const reasons = {
  ROLLOUT: 'The campaign is offered to a part of the users first, and you are not among them yet.',
  REGION: 'The campaign is not offered where you are.',
  CHANNEL: 'The campaign is not offered in this channel.',
  CLIENT_VERSION: 'The campaign is not offered to this version of the client.',
  AUDIENCE: 'Its audience does not include you.',
  /** Block lists and risk: whoever is refused by them learns nothing of how. */
  DECLINED: 'This campaign can’t be offered to you.',
} as const
export type IneligibleReason = keyof typeof reasons

export function notEligible(reason: IneligibleReason): Refused {
  return { code: 'NOT_ELIGIBLE', extras: { detail: reasons[reason], reason } }
}
