import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { makeInstants, meanOf, opening, ramp, steady } from './arrivals.ts'
import { type CrowdWish, distributionOf, type Kind, kinds, planCrowd, regions } from './population.ts'
import { makeChoice, makeRandom, zipfWeights } from './random.ts'

const wish: CrowdWish = {
  seed: 1,
  seconds: 20,
  perSecond: 1_000,
  curve: steady,
  kinds: { once: 0.5, repeater: 0.2, double_tapper: 0.1, late: 0.1, poller: 0.05, listener: 0.03, bot: 0.02 },
  campaigns: 5,
  zipf: 1.2,
  presses: 4,
}

/** Five standard deviations of a share that was drawn `n` times: one wrong alarm in a million. */
const tolerance = (share: number, n: number) => 5 * Math.sqrt((share * (1 - share)) / n)

function shares<T>(items: readonly T[]): Map<T, number> {
  const counts = new Map<T, number>()
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1)
  return new Map([...counts].map(([item, count]) => [item, count / items.length]))
}

describe('a planned crowd', () => {
  const { people, presses } = planCrowd(wish)

  it('has each kind of people in its share', () => {
    const found = shares(people.map(({ kind }) => kind))
    for (const kind of kinds) {
      const wanted = wish.kinds[kind] ?? 0
      const difference = Math.abs((found.get(kind) ?? 0) - wanted)
      assert.ok(difference <= tolerance(wanted, people.length), `${kind}: ${found.get(kind)} for ${wanted}`)
    }
  })

  it('wants campaigns by Zipf’s law', () => {
    const weights = zipfWeights(5, 1.2)
    const sum = weights.reduce((all, weight) => all + weight, 0)
    const found = shares(people.map(({ campaign }) => campaign))
    for (const [campaign, weight] of weights.entries()) {
      const wanted = weight / sum
      assert.ok(Math.abs(found.get(campaign)! - wanted) <= tolerance(wanted, people.length))
    }
    assert.ok(found.get(0)! > 2 * found.get(1)!)
  })

  it('comes from each region in its share, with addresses of that region', () => {
    const humans = people.filter(({ kind }) => kind !== 'bot')
    const found = shares(humans.map(({ region }) => region))
    for (const { name, part } of regions)
      assert.ok(Math.abs(found.get(name)! - part) <= tolerance(part, humans.length))
    for (const { region, address } of humans)
      assert.equal(Number(address.split('.')[0]), regions.find(({ name }) => name === region)!.firstByte)
  })

  it('makes as many requests as were wished at its peak, whoever makes them', () => {
    const wanted = wish.perSecond * wish.seconds
    // Who fetches a token makes two requests of it.
    const requests = presses.reduce((sum, { act }) => sum + (act === 'fetch' ? 2 : 1), 0)
    assert.ok(Math.abs(requests - wanted) < wanted * 0.03, `${requests} for ${wanted}`)
  })

  it('presses in order of time, and each claim once', () => {
    for (let i = 1; i < presses.length; i++) assert.ok(presses[i]!.atMs >= presses[i - 1]!.atMs)
    const first = presses.filter(({ act }) => act === 'claim' || act === 'fetch')
    assert.equal(new Set(first.map(({ person }) => person)).size, first.length)
    const human = people.filter(({ kind }) => kind !== 'bot').length
    assert.equal(first.length, human)
  })

  it('lets those who come late come late, and fetch their token only then', () => {
    for (const { person, act, atMs } of presses)
      if (people[person]!.kind === 'late') {
        assert.equal(act, 'fetch')
        assert.ok(atMs >= 0.4 * wish.seconds * 1000)
      } else assert.notEqual(act, 'fetch')
  })

  it('has bots send nothing that is genuine, and nobody else anything that is not', () => {
    const false_ = new Set(['forged', 'expired', 'no_login'])
    for (const { person, act } of presses)
      assert.equal(false_.has(act), people[person]!.kind === 'bot', `${people[person]!.kind} ${act}`)
  })

  it('is the same for the same seed, and another for another', () => {
    assert.deepEqual(planCrowd(wish), { people, presses })
    assert.notDeepEqual(planCrowd({ ...wish, seed: 2 }).presses[0], presses[0])
  })

  it('has some press before the beginning where that is wished', () => {
    const early = planCrowd({ ...wish, early: 0.1 }).presses.filter(({ atMs }) => atMs < 0)
    assert.ok(early.length > 0.05 * people.length)
    assert.equal(presses.filter(({ atMs }) => atMs < 0).length, 0)
  })

  it('is refused when its shares don’t add up', () => {
    assert.throws(() => planCrowd({ ...wish, kinds: { once: 0.9 } }), /add up to 0.9/)
  })

  it('is counted whole in its distribution', () => {
    const distribution = distributionOf({ people, presses })
    const sum = (prefix: string) =>
      distribution.filter(({ name }) => name.startsWith(prefix)).reduce((all, { count }) => all + count, 0)
    for (const prefix of ['kind ', 'region ', 'campaign ']) assert.equal(sum(prefix), people.length)
    assert.equal(sum('press '), presses.length)
  })
})

describe('arrivals', () => {
  it('lie within the run, whatever the curve and the seed', () => {
    const curves = [steady, ramp(0, 1), opening(0.3, 0.1, 0.2)]
    fc.assert(
      fc.property(fc.integer(), fc.constantFrom(...curves), (seed, curve) => {
        const at = makeInstants(curve)(makeRandom(seed))
        assert.ok(at >= 0 && at < 1)
      }),
    )
  })

  it('follow their curve', () => {
    for (const curve of [steady, ramp(0.2, 1), opening(0.2, 0.1, 0.25)]) {
      const [instant, random] = [makeInstants(curve), makeRandom(11)]
      const n = 40_000
      const counts = new Array<number>(10).fill(0)
      for (let i = 0; i < n; i++) counts[Math.floor(instant(random) * 10)]!++
      const mean = meanOf(curve)
      for (const [tenth, count] of counts.entries()) {
        const part = meanOf((x) => curve((tenth + x) / 10)) / mean / 10
        assert.ok(
          Math.abs(count / n - part) <= tolerance(part, n),
          `tenth ${tenth}: ${count / n} for ${part}`,
        )
      }
    }
  })

  it('crowd as independent people do: their number a moment varies like its square root', () => {
    const [instant, random] = [makeInstants(steady), makeRandom(5)]
    const counts = new Array<number>(1_000).fill(0)
    for (let i = 0; i < 100_000; i++) counts[Math.floor(instant(random) * 1_000)]!++
    const variance = counts.reduce((sum, count) => sum + (count - 100) ** 2, 0) / 1_000
    assert.ok(variance > 80 && variance < 120, `variance ${variance} of a mean of 100`)
  })
})

describe('a choice', () => {
  it('never takes what has no weight', () => {
    fc.assert(
      fc.property(fc.integer(), fc.array(fc.nat(3), { minLength: 1 }), (seed, weights) => {
        fc.pre(weights.some((weight) => weight > 0))
        assert.ok(weights[makeChoice(weights)(makeRandom(seed))]! > 0)
      }),
    )
    assert.throws(() => makeChoice([0, 0]))
  })
})

// The kinds are a closed list: a new one must be given its presses.
const known: Record<Kind, true> = {
  once: true,
  repeater: true,
  fanatic: true,
  double_tapper: true,
  late: true,
  poller: true,
  listener: true,
  bot: true,
}
it('every kind of people can be planned alone', () => {
  for (const kind of Object.keys(known) as Kind[]) {
    const { people, presses } = planCrowd({ ...wish, seconds: 5, kinds: { [kind]: 1 } })
    assert.ok(presses.length >= people.length && people.every((person) => person.kind === kind))
  }
})
