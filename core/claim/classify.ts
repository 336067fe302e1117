import type { RecordState } from '../../schema/acceptance.ts'
import type { ClaimRejection, ClaimState } from '../../schema/states.ts'

/** What the ledger says of a claim's campaign, read under its lock. */
export interface Standing {
  /** Coupons that may still be issued. */
  capacity: number
  perUserLimit: number
  /** Accepted claims that were not delivered yet are to be rejected (IS12). */
  cancelled: boolean
  /** Requests that have a row already. */
  known: ReadonlyMap<string, { status: ClaimState; campaignId: string }>
  /** Sequences of each user's coupons in this campaign. */
  taken: ReadonlyMap<string, readonly number[]>
}

export type Ruling =
  | { kind: 'issue'; claimSeq: number }
  | { kind: 'reject'; reason: ClaimRejection }
  /** The gate accepted it to be reviewed (CL5): it is nothing yet, and takes neither sequence nor capacity. */
  | { kind: 'hold' }
  /** Its row stands already: a redelivery, or a commit whose answer was lost (case-B6). */
  | { kind: 'known'; status: ClaimState }
  /** Its request id belongs to another campaign's claim: for a person to look at. */
  | { kind: 'undecidable' }

/**
 * Rules on claims in order; an earlier one of the same call takes its sequence and its share of the capacity.
 * Precedence: known → cancelled → held for review → a user's limit → the campaign's quota (A4 §8, IS4).
 */
export function classify(
  claims: readonly { userId: string; requestId: string; state?: RecordState }[],
  campaignId: string,
  standing: Standing,
): Ruling[] {
  let { capacity } = standing
  const taken = new Map<string, Set<number>>()
  return claims.map(({ userId, requestId, state }): Ruling => {
    const known = standing.known.get(requestId)
    if (known !== undefined)
      return known.campaignId === campaignId
        ? { kind: 'known', status: known.status }
        : { kind: 'undecidable' }
    if (standing.cancelled) return { kind: 'reject', reason: 'REJECTED_CANCELLED' }
    if (state === 'V') return { kind: 'hold' }
    const mine = taken.get(userId) ?? new Set(standing.taken.get(userId))
    taken.set(userId, mine)
    const claimSeq = nextFree(mine, standing.perUserLimit)
    if (claimSeq === undefined) return { kind: 'reject', reason: 'REJECTED_DUPLICATE' }
    if (capacity === 0) return { kind: 'reject', reason: 'REJECTED_QUOTA' }
    capacity -= 1
    mine.add(claimSeq)
    return { kind: 'issue', claimSeq }
  })
}

function nextFree(taken: ReadonlySet<number>, limit: number): number | undefined {
  for (let sequence = 1; sequence <= limit; sequence++) if (!taken.has(sequence)) return sequence
  return undefined
}
