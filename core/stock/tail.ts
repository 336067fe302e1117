import { limits } from '../../schema/limits.ts'
import type { TailPolicy } from '../../schema/rules.ts'
import { splitExactly } from './split.ts'

/**
 * Which stock is to go where when buckets empty unevenly (A4 §11.2). Pure: what is known in, transfers out. A plan
 * made from old numbers does no harm, since a withdrawal takes what there is and not what was thought to be there.
 */

export interface BucketStock {
  bucket: number
  remaining: number
  /** Acceptances so far: where people came, more will come. */
  accepted: number
}

export interface TailView {
  policy: TailPolicy
  quota: number
  unallocated: number
  buckets: readonly BucketStock[]
}

/** `null` is the campaign's unallocated stock. */
export interface Move {
  from: number | null
  to: number | null
  amount: number
}

/**
 * Whether an empty bucket of this campaign may say SOLD_OUT. `others`: what its other buckets have left, undefined
 * where that is not known, which counts as stock: a false SOLD_OUT would turn people away for good. `elsewhere`:
 * unallocated stock and what is in transit.
 */
export function isFinal(
  policy: TailPolicy,
  others: Iterable<number | undefined>,
  elsewhere: number,
): boolean {
  if (elsewhere > 0) return false
  if (policy === 'accept') return true
  for (const remaining of others) if (remaining !== 0) return false
  return true
}

/** @param random as Math.random */
export function planMoves(view: TailView, random: () => number = Math.random): Move[] {
  const left = view.buckets.reduce((sum, { remaining }) => sum + remaining, 0)
  const empty = view.buckets.filter(({ remaining }) => remaining === 0)
  const few = left + view.unallocated <= Math.floor((view.quota * limits.centraliseBelowPercent) / 100)
  if (view.policy === 'centralise' && few) return centralise(view, empty, random)
  if (view.unallocated > 0) {
    const to = byDemand(empty.length > 0 ? empty : view.buckets, random)
    return deal(view.unallocated, to)
  }
  if (view.policy === 'accept' || empty.length === 0 || left === 0) return []
  return rebalance(view, left, byDemand(empty, random))
}

/** Everything back to the middle, and from there in portions so small that what nobody fetches matters little. */
function centralise(view: TailView, empty: readonly BucketStock[], random: () => number): Move[] {
  if (empty.length === 0) return []
  if (view.unallocated === 0)
    return view.buckets
      .filter(({ remaining }) => remaining > 0)
      .map(({ bucket, remaining }) => ({ from: bucket, to: null, amount: remaining }))
  const portion = Math.max(1, Math.floor(view.unallocated / (4 * empty.length)))
  let left = view.unallocated
  const moves: Move[] = []
  for (const { bucket } of byDemand(empty, random)) {
    const amount = Math.min(portion, left)
    if (amount > 0) moves.push({ from: null, to: bucket, amount })
    left -= amount
  }
  return moves
}

/** Each empty bucket gets what would be its part if the rich ones stayed together one; none gives more than half. */
function rebalance(view: TailView, left: number, empty: readonly BucketStock[]): Move[] {
  const share = Math.ceil(left / (empty.length + 1))
  const rich = view.buckets
    .filter(({ remaining }) => remaining > 0)
    .map(({ bucket, remaining }) => ({ bucket, offer: Math.ceil(remaining / 2) }))
    .sort((a, b) => b.offer - a.offer)
  const moves: Move[] = []
  let at = 0
  for (const { bucket } of empty) {
    let want = share
    while (want > 0 && at < rich.length) {
      const giver = rich[at]!
      const amount = Math.min(want, giver.offer)
      moves.push({ from: giver.bucket, to: bucket, amount })
      want -= amount
      giver.offer -= amount
      if (giver.offer === 0) at++
    }
  }
  return moves
}

/** All of it, in parts that differ by one at most; the first get the larger ones. */
function deal(amount: number, to: readonly BucketStock[]): Move[] {
  const parts = splitExactly(amount, to.length)
  return to.flatMap(({ bucket }, i): Move[] =>
    parts[i]! > 0 ? [{ from: null, to: bucket, amount: parts[i]! }] : [],
  )
}

/**
 * A random order in which busier buckets tend to come first, and every bucket does some time (weighted sampling
 * without replacement, Efraimidis and Spirakis 2006).
 */
function byDemand(buckets: readonly BucketStock[], random: () => number): BucketStock[] {
  return buckets
    .map((stock) => ({ stock, key: Math.log(1 - random()) / (stock.accepted + 1) }))
    .sort((a, b) => b.key - a.key)
    .map(({ stock }) => stock)
}
