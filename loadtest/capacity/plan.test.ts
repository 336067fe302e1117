import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { roundCosts } from './costs.fixture.ts'
import { parseCosts, type UnitCosts } from './costs.ts'
import { bottleneckOf, needsOf } from './needs.ts'
import { makePlan, type Units } from './plan.ts'
import { type Traffic, usual } from './traffic.ts'

const costs = roundCosts.unit
const traffic = (over: Partial<Traffic> = {}): Traffic => ({
  ...usual,
  peakPerSecond: 100_000,
  quota: 50_000,
  users: 500_000,
  ...over,
})

const near = (found: number, expected: number, share = 1e-6) =>
  assert.ok(Math.abs(found - expected) <= expected * share, `${found} is not ${expected}`)

test('100,000 claims a second for 50,000 coupons come out as by hand', () => {
  const { units, flow } = makePlan(traffic(), costs)
  // A fifth repeats, a tenth is refused at the gate: 70,000 first claims, 90,000 decisions.
  assert.deepEqual([flow.firstPerSecond, flow.arbiterPerSecond], [70_000, 90_000])
  near(flow.sellSeconds, 50_000 / 70_000)
  // 7,000 of a database's 10,000 commands, 7 a call: 1,000 calls/s, of 64 claims at the most, 70 % used:
  // 90,000 / (64,000 × 0.7) = 2.01, so three databases; and all their calls are used: 3,000/s of 30 claims.
  assert.equal(units.databases, 3)
  near(flow.calls.perSecond, 3_000)
  near(flow.calls.claims, 30)
  // 3,000 × 200 + 90,000 × 100 + 10,000 × 50 + 25,000 polls × 200 µs = 15.1 cores, at 70 %: 21.6.
  near(flow.edgeCoresSelling, 15.1)
  assert.equal(units.isolates, 22)
  // One call in flight of each of 22 × 3 lanes, 3,000 a second: 22 ms each.
  near(flow.calls.ms, 22)
  // 50,000 coupons within the 0.714 s of selling and 20 s: 2,414/s, of 5,000 × 0.7: one process.
  near(flow.couponsPerSecond, 50_000 / (50_000 / 70_000 + 20))
  assert.equal(units.drains, 1)
  // 25,000 streams of 10,000 × 0.7; 25,000 polls/s × 200 µs = 5 cores / 0.7.
  assert.deepEqual([units.streamProcesses, units.readers], [4, 8])
  // 500,000 people in 300 s, 8 commands each: 13,333/s of 10,000 × 0.7.
  assert.equal(units.limitDatabases, 2)
})

test('the hour’s commands come out as by hand', () => {
  const { flow, units } = makePlan(traffic(), costs)
  const lanes = units.isolates * units.databases
  const selling = 3_000 * flow.sellSeconds * 7
  const looks = (lanes * (60 - flow.sellSeconds) * 4) / 0.35
  const holders = lanes * Math.ceil(50_000 / 3 / 4_000) * 3
  const drain = (50_000 / 64) * 10
  near(flow.commandsInTheHour, selling + looks + holders + drain + 500_000 * 8 + 3_600 * 3 * 10)
  const dollars = needsOf(traffic(), costs, makePlan(traffic(), costs)).find(({ what }) => /hour/.test(what))
  assert.match(dollars!.amount, /\$\d/)
})

test('a shop’s small opening needs one of each', () => {
  const { units, flow } = makePlan(
    traffic({ peakPerSecond: 200, quota: 1_000, users: 2_000, locations: 1 }),
    costs,
  )
  assert.deepEqual(Object.values(units), [1, 1, 1, 1, 1, 1])
  // 180 a second and calls of 5.025 ms: 0.9045 come during one, and e^-0.9045 of the time none.
  near(flow.calls.claims, 0.9045 + Math.exp(-0.9045))
})

test('what is fixed too low is over its limit and named', () => {
  const plan = makePlan(traffic(), costs, { isolates: 5 })
  assert.equal(plan.units.isolates, 5)
  assert.match(bottleneckOf(plan), /^CPU of the isolates: .*over by/)
})

test('a quota over a bucket’s opens more of them', () => {
  assert.equal(makePlan(traffic({ quota: 950_000, peakPerSecond: 1_000 }), costs).units.databases, 10)
})

test('impossible traffic is refused with a sentence', () => {
  assert.throws(() => makePlan(traffic({ repeatShare: 0.6, botShare: 0.5 }), costs), /less than 1/)
  assert.throws(() => makePlan(traffic({ quota: Number.NaN }), costs), /quota/)
  assert.throws(() => makePlan(traffic({ utilisation: 0 }), costs), /utilisation/)
})

test('costs without a figure, or with one that is none, are refused by its name', () => {
  assert.deepEqual(parseCosts(JSON.stringify(roundCosts)), roundCosts)
  const without = { ...roundCosts, unit: { ...costs, kib_per_stream: undefined } }
  assert.throws(() => parseCosts(JSON.stringify(without)), /kib_per_stream/)
  assert.throws(() => parseCosts(JSON.stringify({ ...roundCosts, local: { calm_share: -1 } })), /calm_share/)
})

const anyTraffic = fc.record({
  peakPerSecond: fc.integer({ min: 1, max: 300_000 }),
  quota: fc.integer({ min: 1, max: 2_000_000 }),
  users: fc.integer({ min: 0, max: 5_000_000 }),
  repeatShare: fc.double({ min: 0, max: 0.45, noNaN: true }),
  botShare: fc.double({ min: 0, max: 0.45, noNaN: true }),
  pollerShare: fc.double({ min: 0, max: 1, noNaN: true }),
  listenerShare: fc.double({ min: 0, max: 1, noNaN: true }),
  deliverSeconds: fc.integer({ min: 1, max: 30 }),
  locations: fc.integer({ min: 1, max: 50 }),
  redisRttMs: fc.double({ min: 0.1, max: 100, noNaN: true }),
})
const anyCosts: fc.Arbitrary<UnitCosts> = fc
  .array(fc.double({ min: 0.2, max: 5, noNaN: true }), {
    minLength: Object.keys(costs).length,
    maxLength: Object.keys(costs).length,
  })
  .map((factors) =>
    Object.fromEntries(Object.entries(costs).map(([name, value], i) => [name, value * factors[i]!])),
  ) as never

function assertNeverFewer(less: Units, more: Units): void {
  for (const name of Object.keys(less) as (keyof Units)[])
    assert.ok(less[name] <= more[name], `${name}: ${less[name]} for less, ${more[name]} for more`)
}

const grown = ['peakPerSecond', 'quota', 'users', 'pollerShare', 'listenerShare'] as const

test('more traffic never needs fewer of anything', () => {
  fc.assert(
    fc.property(
      anyTraffic,
      anyCosts,
      fc.constantFrom(...grown),
      fc.double({ min: 1, max: 4, noNaN: true }),
      (some, costs, name, factor) => {
        const less = traffic(some)
        const most = name === 'pollerShare' || name === 'listenerShare' ? 1 : Number.POSITIVE_INFINITY
        const more = { ...less, [name]: Math.min(most, less[name] * factor) }
        assertNeverFewer(makePlan(less, costs).units, makePlan(more, costs).units)
      },
    ),
    { numRuns: 300 },
  )
})

test('dearer claims never need fewer isolates or databases', () => {
  fc.assert(
    fc.property(anyTraffic, fc.double({ min: 1, max: 5, noNaN: true }), (some, factor) => {
      const dearer = {
        ...costs,
        worker_us_per_claim: costs.worker_us_per_claim * factor,
        redis_us_per_claim: costs.redis_us_per_claim * factor,
      }
      const [less, more] = [makePlan(traffic(some), costs).units, makePlan(traffic(some), dearer).units]
      assert.ok(less.isolates <= more.isolates && less.databases <= more.databases)
    }),
    { numRuns: 200 },
  )
})

test('the named bottleneck has the least head-room, and what was made as needed is under its limit', () => {
  fc.assert(
    fc.property(anyTraffic, anyCosts, (some, costs) => {
      const plan = makePlan(traffic(some), costs)
      const least = plan.stations.reduce((a, b) => (b.used > a.used ? b : a))
      assert.ok(bottleneckOf(plan).startsWith(`${least.name}: `))
      const sized =
        /^(CPU of the isolates|decisions|CPU of the Redis|drain processes|event streams|commands of the limits)/
      for (const { name, used } of plan.stations)
        if (sized.test(name)) assert.ok(used <= usual.utilisation + 1e-9, `${name}: ${used}`)
    }),
    { numRuns: 200 },
  )
})
