/** Random numbers that follow from a seed: the same seed draws the same ones, on any machine. */
export interface Random {
  /** From 0 up to and without 1. */
  next(): number
  /** A whole number from `least` to `most`, both included. */
  int(least: number, most: number): number
  chance(probability: number): boolean
  pick<T>(from: readonly T[]): T
  /** One of the names, in proportion to its weight. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K
  bytes(count: number): Uint8Array
  /** A stream of its own, so that draws in one place don't shift those in another. */
  fork(name: string): Random
}

/** mulberry32 over a seed mixed with a name (xmur3). */
export function seeded(seed: number, name = ''): Random {
  let state = mix(`${seed}/${name}`)

  function next(): number {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
  const int = (least: number, most: number) => least + Math.floor(next() * (most - least + 1))

  return {
    next,
    int,
    chance: (probability) => next() < probability,
    pick: (from) => from[int(0, from.length - 1)]!,
    weighted(weights) {
      const names = Object.keys(weights) as (keyof typeof weights)[]
      let at = next() * names.reduce((sum, one) => sum + weights[one], 0)
      for (const one of names) {
        at -= weights[one]
        if (at < 0) return one
      }
      return names.at(-1)!
    },
    bytes(count) {
      const out = new Uint8Array(count)
      for (let i = 0; i < count; i++) out[i] = int(0, 255)
      return out
    },
    fork: (more) => seeded(seed, `${name}/${more}`),
  }
}

function mix(text: string): number {
  let h = 1779033703 ^ text.length
  for (let i = 0; i < text.length; i++) {
    h = Math.imul(h ^ text.charCodeAt(i), 3432918353)
    h = (h << 13) | (h >>> 19)
  }
  h = Math.imul(h ^ (h >>> 16), 2246822507)
  h = Math.imul(h ^ (h >>> 13), 3266489909)
  return (h ^ (h >>> 16)) | 0
}
