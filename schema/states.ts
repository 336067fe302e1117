/**
 * States and their legal transitions (DESIGN §2), one typed table a thing.
 * A transition that is not in its table is an error, never a silent no-op.
 */

type Table<S extends string> = { readonly [From in S]: readonly S[] }

export class IllegalTransition extends Error {
  readonly machine: string
  readonly from: string
  readonly to: string
  constructor(machine: string, from: string, to: string) {
    super(`${machine}: ${from} → ${to} is not allowed`)
    this.name = 'IllegalTransition'
    this.machine = machine
    this.from = from
    this.to = to
  }
}

export interface Machine<S extends string> {
  readonly name: string
  readonly states: readonly S[]
  readonly initial: S
  can(from: S, to: S): boolean
  /** Returns `to`. @throws IllegalTransition */
  move(from: S, to: S): S
  /** States from which `to` can be reached in one step; for `WHERE state = ANY(…)`. */
  sources(to: S): S[]
  isFinal(state: S): boolean
}

function machine<const S extends string>(name: string, initial: NoInfer<S>, table: Table<S>): Machine<S> {
  const states = Object.keys(table) as S[]
  return {
    name,
    states,
    initial,
    can: (from, to) => table[from].includes(to),
    move(from, to) {
      if (!table[from]?.includes(to)) throw new IllegalTransition(name, from, to)
      return to
    },
    sources: (to) => states.filter((from) => table[from].includes(to)),
    isFinal: (state) => table[state].length === 0,
  }
}

export type CampaignState = 'DRAFT' | 'IN_REVIEW' | 'APPROVED' | 'ACTIVE' | 'PAUSED' | 'ENDED' | 'VOIDED'
export const campaignMachine = machine<CampaignState>('campaign', 'DRAFT', {
  DRAFT: ['IN_REVIEW', 'VOIDED'],
  IN_REVIEW: ['APPROVED', 'DRAFT', 'VOIDED'],
  APPROVED: ['ACTIVE', 'VOIDED'],
  ACTIVE: ['PAUSED', 'ENDED', 'VOIDED'],
  PAUSED: ['ACTIVE', 'ENDED', 'VOIDED'],
  ENDED: [],
  VOIDED: [],
})

export type ClaimState = 'ACCEPTED' | 'PROCESSING' | 'DELIVERED' | 'REJECTED' | 'UNKNOWN' | 'REVIEW'
export const claimMachine = machine<ClaimState>('claim', 'ACCEPTED', {
  ACCEPTED: ['PROCESSING', 'UNKNOWN', 'REVIEW'],
  PROCESSING: ['DELIVERED', 'REJECTED', 'UNKNOWN', 'REVIEW'],
  UNKNOWN: ['DELIVERED', 'REJECTED', 'REVIEW'],
  REVIEW: ['DELIVERED', 'REJECTED'],
  DELIVERED: [],
  REJECTED: [],
})

/** Why an accepted claim did not become a coupon. */
export type ClaimRejection =
  | 'REJECTED_DUPLICATE'
  | 'REJECTED_QUOTA'
  | 'REJECTED_INELIGIBLE'
  | 'REJECTED_CANCELLED'
  | 'REJECTED_BY_OPERATOR'
  | 'REJECTED_NOT_CHOSEN'

export type CouponState = 'ISSUING' | 'AVAILABLE' | 'RESERVED' | 'USED' | 'EXPIRED' | 'REVOKED'
export const couponMachine = machine<CouponState>('coupon', 'ISSUING', {
  ISSUING: ['AVAILABLE'],
  AVAILABLE: ['RESERVED', 'EXPIRED', 'REVOKED'],
  RESERVED: ['USED', 'AVAILABLE', 'REVOKED'],
  USED: ['AVAILABLE'],
  EXPIRED: [],
  REVOKED: [],
})

export type CompensationState = 'PENDING' | 'APPLIED' | 'CLOSED' | 'UNKNOWN' | 'REVIEW'
export const compensationMachine = machine<CompensationState>('compensation', 'PENDING', {
  PENDING: ['APPLIED', 'UNKNOWN', 'REVIEW'],
  APPLIED: ['CLOSED'],
  UNKNOWN: ['PENDING', 'APPLIED', 'REVIEW'],
  REVIEW: ['PENDING'],
  CLOSED: [],
})

/** Stock on its way: what is WITHDRAWN and not DEPOSITED is in transit. */
export type TransferState = 'PLANNED' | 'WITHDRAWN' | 'DEPOSITED'
export const transferMachine = machine<TransferState>('transfer', 'PLANNED', {
  PLANNED: ['WITHDRAWN'],
  WITHDRAWN: ['DEPOSITED'],
  DEPOSITED: [],
})

/** DRAWN: the lots stand; SETTLED: each entrant has a coupon or a rejection. */
export type BallotState = 'OPEN' | 'DRAWN' | 'SETTLED' | 'CANCELLED'
export const ballotMachine = machine<BallotState>('ballot', 'OPEN', {
  OPEN: ['DRAWN', 'CANCELLED'],
  DRAWN: ['SETTLED'],
  SETTLED: [],
  CANCELLED: [],
})
