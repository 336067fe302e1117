import type { Random } from './random.ts'

/** The rate of arrivals over a run: at `x` from 0 (its begin) to 1 (its end), as a part of its peak, 0 to 1. */
export type Curve = (x: number) => number

/** Always the same. */
export const steady: Curve = () => 1

/** Grows evenly from one part of the peak to another. */
export function ramp(from: number, to: number): Curve {
  return (x) => from + (to - from) * x
}

/** An opening: the peak for a while, then exponential decay towards a tail of those who come late. */
export function opening(hold: number, decay: number, tail: number): Curve {
  return (x) => (x <= hold ? 1 : tail + (1 - tail) * Math.exp((hold - x) / decay))
}

const steps = 2_000

/** The mean of the curve: how much of a run at its peak all arrivals are. */
export function meanOf(curve: Curve): number {
  let sum = 0
  for (let i = 0; i < steps; i++) sum += curve((i + 0.5) / steps)
  return sum / steps
}

/**
 * Draws instants in [0, 1) by the curve, each by itself: many such arrivals are a Poisson process, with the crowding
 * of people who know nothing of each other.
 */
export function makeInstants(curve: Curve): (random: Random) => number {
  const sums = new Float64Array(steps + 1)
  for (let i = 0; i < steps; i++) sums[i + 1] = sums[i]! + Math.max(0, curve((i + 0.5) / steps))
  const total = sums[steps]!
  if (!(total > 0)) throw new RangeError('a curve needs a rate above zero')
  return (random) => {
    const wanted = random() * total
    let low = 0
    let high = steps
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (sums[middle]! <= wanted) low = middle
      else high = middle
    }
    return (low + (wanted - sums[low]!) / (sums[low + 1]! - sums[low]!)) / steps
  }
}
