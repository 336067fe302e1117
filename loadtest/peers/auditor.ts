/**
 * Judges any design by two things alone: what clients were told, and what exists when everything has come to rest.
 * It knows nothing of how a design works.
 */
export interface Found {
  readonly quota: number
  /** Users who heard yes and were not told otherwise later. */
  readonly promised: Iterable<string>
  /** One user id a coupon. */
  readonly coupons: readonly string[]
  /** What the design believes to be left. */
  readonly remaining: number
}

export interface Judgement {
  /** Coupons beyond the quota. */
  readonly oversold: number
  /** Users who heard yes and have no coupon. */
  readonly lost: number
  /** Users with more than the one coupon that each may have. */
  readonly doubled: number
  /** Stock that is gone, and no coupon came of it. */
  readonly stranded: number
}

export const nothing: Judgement = { oversold: 0, lost: 0, doubled: 0, stranded: 0 }

export function judge({ quota, promised, coupons, remaining }: Found): Judgement {
  const counts = new Map<string, number>()
  for (const user of coupons) counts.set(user, (counts.get(user) ?? 0) + 1)
  let lost = 0
  for (const user of new Set(promised)) if (!counts.has(user)) lost++
  return {
    oversold: Math.max(0, coupons.length - quota),
    lost,
    doubled: [...counts.values()].filter((count) => count > 1).length,
    stranded: Math.max(0, quota - Math.max(0, remaining) - coupons.length),
  }
}

export function sum(all: readonly Judgement[]): Judgement {
  return all.reduce(
    (a, b) => ({
      oversold: a.oversold + b.oversold,
      lost: a.lost + b.lost,
      doubled: a.doubled + b.doubled,
      stranded: a.stranded + b.stranded,
    }),
    nothing,
  )
}
