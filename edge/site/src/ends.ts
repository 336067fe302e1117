import type { ClaimRejection } from '../../../schema/states.ts'
import type { Phase } from './model.ts'

/** Refusals that nothing comes after. */
export const endOf: Readonly<Record<string, Phase>> = {
  SOLD_OUT: 'sold_out',
  LIMIT_REACHED: 'limit_reached',
  ENDED: 'ended',
  VOIDED: 'withdrawn',
  NOT_ELIGIBLE: 'not_eligible',
  CAMPAIGN_NOT_FOUND: 'missing',
}

/** Why an accepted claim became no coupon. */
export const rejectionOf: Readonly<Record<string, Phase>> = {
  REJECTED_QUOTA: 'sold_out',
  REJECTED_DUPLICATE: 'limit_reached',
  REJECTED_INELIGIBLE: 'not_eligible',
  REJECTED_NOT_CHOSEN: 'not_chosen',
  REJECTED_CANCELLED: 'withdrawn',
} satisfies Partial<Record<ClaimRejection, Phase>>
