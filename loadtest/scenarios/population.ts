import { type Curve, makeInstants, meanOf } from './arrivals.ts'
import { exponential, makeChoice, makeRandom, type Random, zipfWeights } from './random.ts'

/**
 * Who comes.
 *
 *   once           presses once
 *   repeater       presses again and again, the same request (same key)
 *   fanatic        the same, a hundred times: a script in a browser
 *   double_tapper  presses a second time as another request (another key, the same token)
 *   late           comes after the rush, and fetches the claim token only then
 *   poller         asks for the claim's status until it is final
 *   listener       holds the claim's event stream open until it is final
 *   bot            sends what is forged, expired or without login, from few addresses
 */
export const kinds = [
  'once',
  'repeater',
  'fanatic',
  'double_tapper',
  'late',
  'poller',
  'listener',
  'bot',
] as const
export type Kind = (typeof kinds)[number]

export interface CrowdWish {
  seed: number
  seconds: number
  /** Requests a second at the curve's peak, of all people together. */
  perSecond: number
  curve: Curve
  /** Parts of all people; those missing don't come. */
  kinds: Partial<Record<Kind, number>>
  /** Campaigns, the most wanted first; their weights follow Zipf's law. */
  campaigns: number
  zipf: number
  /** Part of the people who press a moment before the beginning. */
  early?: number
  /** Presses of a repeater, on average. */
  presses?: number
}

export interface Person {
  readonly kind: Kind
  readonly campaign: number
  readonly region: string
  readonly address: string
}

/**
 * claim: the first press, repeated by its rules until it has an answer · again: the same request ·
 * other_key: the same token under another key · fetch: a claim token first, then the claim ·
 * forged, expired: a claim with such a token · no_login: a token request without login
 */
export type Act = 'claim' | 'again' | 'other_key' | 'fetch' | 'forged' | 'expired' | 'no_login'

export interface Press {
  /** From the beginning; below zero for those who can't wait. */
  readonly atMs: number
  readonly person: number
  readonly act: Act
}

export interface Plan {
  readonly people: readonly Person[]
  /** In order of time. */
  readonly presses: readonly Press[]
}

/** Where people are, and the first byte of their addresses. Parts as of a shop that sells mostly at home. */
export const regions = [
  { name: 'cn-east', part: 0.42, firstByte: 101 },
  { name: 'cn-south', part: 0.27, firstByte: 113 },
  { name: 'cn-north', part: 0.21, firstByte: 123 },
  { name: 'sea', part: 0.07, firstByte: 175 },
  { name: 'eu', part: 0.03, firstByte: 91 },
] as const
const regionOf = makeChoice(regions.map(({ part }) => part))

/** One in so many sits behind a carrier's shared addresses; the others have one of their own. */
const sharedPart = 0.2
const sharedAddresses = 250
const botAddresses = 8
const pressesOfBot = 5
const pressesOfFanatic = 100
const lateFrom = 0.4
const earlyMs = 800
const lastShare = 1e-9

/** Presses that a person of this kind plans, on average. */
function pressesOf(kind: Kind, presses: number): number {
  switch (kind) {
    case 'repeater':
      return presses
    case 'fanatic':
      return pressesOfFanatic
    case 'double_tapper':
    case 'late':
      return 2
    case 'bot':
      return pressesOfBot
    default:
      return 1
  }
}

/** Plans a crowd: who they are and when each presses. The same wish makes the same plan. @throws on a wrong wish. */
export function planCrowd(wish: CrowdWish): Plan {
  const { kinds: parts, presses: meanPresses = 4 } = wish
  const weights = kinds.map((kind) => parts[kind] ?? 0)
  const sum = weights.reduce((all, part) => all + part, 0)
  if (Math.abs(sum - 1) > lastShare * 1e3) throw new RangeError(`the kinds' parts add up to ${sum}, not to 1`)
  const random = makeRandom(wish.seed)
  const perPerson = kinds.reduce((all, kind, i) => all + weights[i]! * pressesOf(kind, meanPresses), 0)
  const count = Math.max(1, Math.round((wish.perSecond * wish.seconds * meanOf(wish.curve)) / perPerson))
  const kindOf = makeChoice(weights)
  const campaignOf = makeChoice(zipfWeights(wish.campaigns, wish.zipf))
  const instant = makeInstants(wish.curve)
  const lengthMs = wish.seconds * 1000
  const people: Person[] = []
  const presses: Press[] = []
  for (let person = 0; person < count; person++) {
    const kind = kinds[kindOf(random)]!
    people.push({ kind, campaign: campaignOf(random), ...placeOf(kind, random) })
    const isEarly = kind !== 'late' && random() < (wish.early ?? 0)
    const x = kind === 'late' ? lateFrom + random() * (1 - lateFrom) : instant(random)
    const atMs = isEarly ? -random() * earlyMs : x * lengthMs
    planPresses(kind, person, atMs, { presses: meanPresses, lengthMs, random }, presses)
  }
  presses.sort((a, b) => a.atMs - b.atMs)
  return { people, presses }
}

function planPresses(
  kind: Kind,
  person: number,
  atMs: number,
  { presses, lengthMs, random }: { presses: number; lengthMs: number; random: Random },
  out: Press[],
): void {
  switch (kind) {
    case 'bot': {
      const acts = ['forged', 'expired', 'no_login'] as const
      const act = acts[Math.floor(random() * acts.length)]!
      for (let i = 0; i < pressesOfBot; i++) out.push({ atMs: atMs + i * 20, person, act })
      return
    }
    case 'late':
      out.push({ atMs, person, act: 'fetch' })
      return
    case 'double_tapper':
      out.push({ atMs, person, act: 'claim' })
      out.push({ atMs: atMs + 80 + random() * 300, person, act: 'other_key' })
      return
    case 'fanatic': {
      out.push({ atMs, person, act: 'claim' })
      const step = Math.min(100, Math.max(20, (lengthMs - atMs) / pressesOfFanatic))
      for (let i = 1; i < pressesOfFanatic; i++) out.push({ atMs: atMs + i * step, person, act: 'again' })
      return
    }
    case 'repeater': {
      out.push({ atMs, person, act: 'claim' })
      const more = Math.floor(presses - 1) + (random() < presses % 1 ? 1 : 0)
      let next = atMs
      for (let i = 0; i < more; i++) {
        next += 60 + exponential(random, Math.min(900, lengthMs / 10))
        out.push({ atMs: next, person, act: 'again' })
      }
      return
    }
    default:
      out.push({ atMs, person, act: 'claim' })
  }
}

function placeOf(kind: Kind, random: Random): { region: string; address: string } {
  const { name, firstByte } = regions[regionOf(random)]!
  const byte = () => Math.floor(random() * 256)
  if (kind === 'bot') return { region: name, address: `45.9.148.${Math.floor(random() * botAddresses)}` }
  if (random() < sharedPart)
    return { region: name, address: `${firstByte}.64.0.${Math.floor(random() * sharedAddresses)}` }
  return { region: name, address: `${firstByte}.${byte()}.${byte()}.${byte()}` }
}

/** Who came, counted by kind, region and campaign: what a report shows of the crowd. */
export function distributionOf({ people, presses }: Plan): { name: string; count: number }[] {
  const counts = new Map<string, number>()
  const add = (name: string) => counts.set(name, (counts.get(name) ?? 0) + 1)
  for (const { kind, region, campaign } of people)
    for (const name of [`kind ${kind}`, `region ${region}`, `campaign ${campaign + 1}`]) add(name)
  for (const { act } of presses) add(`press ${act}`)
  return [...counts]
    .map(([name, count]) => ({ name, count }))
    .sort((a, b) => a.name.localeCompare(b.name, 'en', { numeric: true }))
}
