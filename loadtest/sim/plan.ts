import type { TailPolicy } from '../../schema/rules.ts'
import type { Pace, Troubles } from './network.ts'
import { type Random, seeded } from './random.ts'

/** What a seed's small world is like, and what befalls it. All drawn before anything happens. */
export interface Plan {
  readonly seed: number
  readonly quota: number
  readonly perUserLimit: number
  readonly bucketCount: number
  readonly tailPolicy: TailPolicy
  readonly inFlight: 'continue' | 'cancel'
  readonly users: number
  readonly cores: number
  /** The campaign's window, ms from the start. */
  readonly startsInMs: number
  readonly endsInMs: number
  /** Until then people come and things go wrong; afterwards all is let come to rest. */
  readonly activeMs: number
  readonly pace: Pace
  readonly troubles: Troubles
  /** A script whose calls fail often in this world: what is rare elsewhere is met here. */
  readonly fickle: string | undefined
  readonly happenings: readonly Happening[]
}

/** Something that is done to the system at an instant. */
export type Happening = { readonly atMs: number } & (
  | { readonly kind: 'pause' | 'resume' | 'end' }
  | { readonly kind: 'remember' }
  | { readonly kind: 'increase'; readonly amount: number }
  /** Back to the state that was kept as the `to`th; `seen`: the server says that it is another one. */
  | { readonly kind: 'rewind'; readonly to: number; readonly seen: boolean }
  | { readonly kind: 'lose everything' }
  | { readonly kind: 'kill core' | 'kill edge' | 'break subscription'; readonly which: number }
)

export function planOf(seed: number): Plan {
  const random = seeded(seed, 'plan')
  const bucketCount = random.weighted({ 1: 45, 2: 35, 3: 20 } as const as Record<string, number>)
  const activeMs = random.int(4_000, 8_000)
  const windowed = random.chance(0.15)
  const inFlight = random.chance(0.35) ? 'cancel' : 'continue'
  return {
    seed,
    quota: random.int(1, 12),
    perUserLimit: random.chance(0.7) ? 1 : 2,
    bucketCount: Number(bucketCount),
    tailPolicy: random.weighted<TailPolicy>({ rebalance: 60, centralise: 25, accept: 15 }),
    inFlight,
    users: random.int(5, 24),
    cores: random.chance(0.35) ? 2 : 1,
    startsInMs: random.chance(0.2) ? random.int(500, 2_500) : -60_000,
    endsInMs: windowed ? random.int(3_500, activeMs) : 3_600_000,
    activeMs,
    pace: random.weighted<Pace>({ even: 15, quick: 35, mixed: 35, slow: 15 }),
    troubles: troublesOf(random),
    fickle: fickleOf(seeded(seed, 'fickle')),
    happenings: happeningsOf(random, activeMs, inFlight),
  }
}

const fickleScripts = ['compensate', 'deposit', 'withdraw', 'settle', 'honour'] as const

function fickleOf(random: Random): string | undefined {
  return random.chance(0.35) ? random.pick(fickleScripts) : undefined
}

function troublesOf(random: Random): Troubles {
  const level = random.weighted({ none: 15, few: 45, many: 40 })
  if (level === 'none') return { lost: 0, failed: 0, late: 0, crash: 0 }
  const most = level === 'few' ? 8 : 40
  return {
    lost: random.int(0, most),
    failed: random.int(0, most),
    late: random.int(0, most / 2),
    crash: random.chance(0.6) ? random.int(0, level === 'few' ? 2 : 6) : 0,
  }
}

function happeningsOf(random: Random, activeMs: number, inFlight: Plan['inFlight']): Happening[] {
  const happenings: Happening[] = []
  const at = () => random.int(1_200, activeMs)
  const some = (chance: number, most: number) => (random.chance(chance) ? random.int(1, most) : 0)
  for (let n = some(0.3, 3); n > 0; n--)
    happenings.push({ atMs: at(), kind: 'kill core', which: random.int(0, 1) })
  for (let n = some(0.25, 3); n > 0; n--)
    happenings.push({ atMs: at(), kind: 'kill edge', which: random.int(0, 1) })
  // Where a pause cancels what is not delivered yet, it shall meet some of that: a core may have died just before.
  const cancels = inFlight === 'cancel'
  if (random.chance(cancels ? 0.85 : 0.2)) {
    const pausedAt = at()
    happenings.push({ atMs: pausedAt, kind: 'pause' })
    if (cancels && random.chance(0.7))
      happenings.push({ atMs: pausedAt - random.int(100, 900), kind: 'kill core', which: 0 })
    if (random.chance(0.85)) happenings.push({ atMs: pausedAt + random.int(200, 2_500), kind: 'resume' })
  }
  if (random.chance(0.3)) happenings.push({ atMs: at(), kind: 'increase', amount: random.int(1, 5) })
  if (random.chance(0.1)) happenings.push({ atMs: at(), kind: 'end' })
  if (random.chance(0.15))
    happenings.push({ atMs: at(), kind: 'break subscription', which: random.int(0, 1) })
  addLosses(random, happenings, activeMs)
  return happenings.sort((a, b) => a.atMs - b.atMs)
}

function addLosses(random: Random, happenings: Happening[], activeMs: number): void {
  if (!random.chance(0.4)) return
  const losses = random.chance(0.75) ? 1 : 2
  for (let n = 0; n < losses; n++) {
    const atMs = random.int(2_000, activeMs)
    if (random.chance(0.25)) {
      happenings.push({ atMs, kind: 'lose everything' })
      continue
    }
    happenings.push({ atMs: Math.max(1_000, atMs - random.int(20, 2_500)), kind: 'remember' })
    happenings.push({ atMs, kind: 'rewind', to: random.int(0, 3), seen: random.chance(0.8) })
  }
}
