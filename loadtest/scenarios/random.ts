/** A seeded source: the same seed makes the same crowd. Uniform in [0, 1). */
export type Random = () => number

/** The generator known as mulberry32: small, quick, and good enough for who comes when. */
export function makeRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Draws an index with these weights. @throws when they add up to nothing. */
export function makeChoice(weights: readonly number[]): (random: Random) => number {
  const sums: number[] = []
  let total = 0
  for (const weight of weights) {
    total += weight
    sums.push(total)
  }
  if (!(total > 0)) throw new RangeError('a choice needs a weight above zero')
  return (random) => {
    const at = random() * total
    let low = 0
    let high = sums.length - 1
    while (low < high) {
      const middle = (low + high) >> 1
      if (sums[middle]! > at) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** Zipf's law: the k-th of `count` things is wanted k^-s as much as the first. */
export function zipfWeights(count: number, s: number): number[] {
  return Array.from({ length: count }, (_, k) => (k + 1) ** -s)
}

/** An exponentially distributed time. */
export function exponential(random: Random, mean: number): number {
  return -mean * Math.log(1 - random())
}
