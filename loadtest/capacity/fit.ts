/** So many claims in so many calls took so much. */
export interface Observation {
  readonly claims: number
  readonly calls: number
  readonly us: number
}

/**
 * Splits what two runs took into a share for each claim and one for each call: two equations, two unknowns. A share
 * that comes out below zero is noise, and the other takes all.
 */
export function perClaimAndCall(few: Observation, many: Observation): { claim: number; call: number } {
  const determinant = few.claims * many.calls - many.claims * few.calls
  if (determinant === 0) return { claim: many.us / many.claims, call: 0 }
  const claim = (few.us * many.calls - many.us * few.calls) / determinant
  const call = (few.claims * many.us - many.claims * few.us) / determinant
  if (call < 0) return { claim: many.us / many.claims, call: 0 }
  if (claim < 0) return { claim: 0, call: many.us / many.calls }
  return { claim, call }
}
