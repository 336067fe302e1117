import { setTimeout as pause } from 'node:timers/promises'
import { audit } from '../audit/audit.ts'
import { closedLoop } from '../traffic/openLoop.ts'
import type { Crowd } from './crowd.ts'
import { type Delivery, deliveryLatencies, deliveryLine, readDeliveries } from './deliveries.ts'
import { settledIds, untilAtRest, untilLeased } from './ledgerLooks.ts'
import { presentReceipts } from './receipts.ts'
import type { Load, Scenario } from './scenario.ts'
import { splitCommands } from './usage.ts'
import type { Measured } from './verdict.ts'
import type { Acceptance } from './visitor.ts'
import type { World } from './world.ts'

const leaseWithinMs = 30_000
const restWithinMs = 90_000
const watchersWithinMs = 20_000
const replaysChecked = 100

/** Waits until all is over, and reads what came of it. */
export async function measure(scenario: Scenario, world: World, load: Load): Promise<Measured> {
  const { sampler, before, tally, crowds } = world
  if (sampler === undefined || before === undefined) throw new Error(`${scenario.name} never began`)
  const { unknownLeft, accepted, lost } = await settle(scenario, world)
  await sampler.stop()
  const seconds = (performance.now() - before.at) / 1000
  const counters = await world.counters()
  const store = await world.readStore()
  const cpu = world.cpu.seconds()
  await checkReplays(world, accepted, new Set(lost.map(({ requestId }) => requestId)))
  await auditAll(world, accepted)
  const ids = world.campaigns.map(({ id }) => id)
  // Who came before the run is audited, and not measured.
  const deliveries = (await readDeliveries(world.sql, ids)).filter(
    ({ acceptedAtMs }) => acceptedAtMs >= sampler.startedAtMs,
  )
  const commands = splitCommands(before.counters, counters, sampler.commandsSent)
  const work = {
    calls: counters.calls - before.counters.calls,
    claims: counters.claims - before.counters.claims,
    transactions: counters.transactions - before.counters.transactions,
  }
  const sum = (of: (crowd: Crowd) => number) => crowds.reduce((all, crowd) => all + of(crowd), 0)
  const [mismatches, fooled] = [sum((crowd) => crowd.mismatches), sum((crowd) => crowd.fooled)]
  return {
    ...{ name: scenario.name, title: scenario.title, about: scenario.about },
    settings: settingsOf(load, world),
    seconds: round(seconds),
    distribution: world.distribution,
    sizes: tally.sizes,
    timeline: timelineOf(world, deliveries),
    latencies: [...tally.records(), ...deliveryLatencies(deliveries, world.groupOf)].sort((a, b) =>
      a.name.localeCompare(b.name),
    ),
    ...{ offered: tally.offered, answered: tally.answered, codes: tally.codes },
    funnel: funnelOf(world, work, deliveries.length),
    commands,
    cpu_seconds: cpu,
    figures: rounded({
      ...world.figures,
      ...world.look?.(deliveries),
      ...store.scriptUs,
      unknown_outcomes: sum((crowd) => crowd.unknowns),
      unknown_left: unknownLeft,
      undelivered: (await undecided(world, accepted)).length,
      replays_that_differ: mismatches,
      bots_served: fooled,
      claims_per_call: work.claims / Math.max(1, work.calls),
      edge_commands_per_call: commands.edge / Math.max(1, work.calls),
      edge_commands_per_request: commands.edge / Math.max(1, tally.offered),
      claims_per_transaction: deliveries.length / Math.max(1, work.transactions),
      // Of a Redis that was started anew, the counter began anew too.
      redis_cpu_seconds: store.cpuSeconds - (store.cpuSeconds >= before.redisCpu ? before.redisCpu : 0),
      lost_with_redis: scenario.losesAcceptances ? lost.length : 0,
    }),
    violations: violationsOf(world, mismatches, fooled),
  }
}

/** Until everybody knows, everything is delivered, and whatever Redis lost is made good. */
async function settle(scenario: Scenario, world: World) {
  world.progress('waiting until everything is settled')
  await untilLeased(world.redis, world.campaigns, leaseWithinMs)
  let unknownLeft = 0
  for (const crowd of world.crowds) {
    crowd.leave()
    unknownLeft += await crowd.resolve()
  }
  await untilAtRest(world.redis, world.sql, world.campaigns, restWithinMs)
  const accepted = world.crowds.flatMap((crowd) => crowd.accepted)
  const lost = await undecided(world, accepted)
  if (scenario.losesAcceptances) await honour(world, lost)
  await untilAllTold(world)
  return { unknownLeft, accepted, lost }
}

function funnelOf(
  { tally }: World,
  work: { calls: number; claims: number; transactions: number },
  told: number,
): Measured['funnel'] {
  return [
    { stage: 'requests offered', count: tally.offered },
    { stage: 'answered', count: tally.answered },
    { stage: 'reached the arbiter', count: work.claims },
    { stage: 'arbitration calls', count: work.calls },
    { stage: 'accepted', count: tally.codes['ACCEPTED'] ?? 0 },
    { stage: 'Postgres transactions', count: work.transactions },
    { stage: 'coupons told', count: told },
  ]
}

function settingsOf(load: Load, world: World): Measured['settings'] {
  return {
    'people come for, s': load.seconds,
    'requests/s at the peak': Math.round(load.perSecond),
    'claims/s in the rehearsal':
      load.capacity === undefined ? 'none: the rate was given' : Math.round(load.capacity),
    seed: load.seed,
    campaigns: world.campaigns.length,
    buckets: world.campaigns.reduce((all, { bucketCount }) => all + bucketCount, 0),
    quota: world.campaigns.reduce((all, { quota }) => all + quota, 0),
    regions: 'by the client’s address alone: no distance is simulated',
    'claim tokens':
      'signed with the stack’s key before the run; those who come late fetch theirs from the gate',
    ...world.settings,
  }
}

function timelineOf(world: World, deliveries: readonly Delivery[]): Measured['timeline'] {
  const sampler = world.sampler!
  const timeline = sampler.timeline()
  const samples = timeline.series['offered']?.length ?? 0
  const deliver = deliveryLine(deliveries, sampler.startedAtMs, timeline.every_ms, samples)
  return { ...timeline, series: { ...timeline.series, deliver_p99_ms: deliver } }
}

/** Acceptances that the ledger has not decided. */
async function undecided(world: World, accepted: readonly Acceptance[]): Promise<Acceptance[]> {
  const settled = await settledIds(world.sql, world.campaigns)
  return accepted.filter(({ requestId }) => !settled.has(requestId))
}

async function honour(world: World, lost: readonly Acceptance[]): Promise<void> {
  if (lost.length === 0) return
  world.progress(`presenting ${lost.length} receipts`)
  await presentReceipts(world, lost)
  await untilAtRest(world.redis, world.sql, world.campaigns, restWithinMs)
  await untilLeased(world.redis, world.campaigns, leaseWithinMs)
}

/** Pollers ask every 15 s at worst: those who have not heard by then are counted as not told. */
async function untilAllTold(world: World): Promise<void> {
  const end = performance.now() + watchersWithinMs
  while (world.watchers.waiting > 0 && performance.now() < end) await pause(50)
  world.figures['watchers_told'] = world.watchers.told
  world.figures['watchers_not_told'] = world.watchers.waiting
  await world.watchers.end()
}

/** Invariant 4 from outside: the same claim again has the very same answer. */
async function checkReplays(
  world: World,
  accepted: readonly Acceptance[],
  except: ReadonlySet<string>,
): Promise<void> {
  const holders = new Map(
    world.crowds.flatMap((crowd) =>
      crowd.visitors.flatMap((visitor) =>
        visitor.acceptance === undefined ? [] : [[visitor.acceptance.requestId, { crowd, visitor }] as const],
      ),
    ),
  )
  const step = Math.max(1, Math.floor(accepted.length / replaysChecked))
  const sample = accepted.filter(({ requestId }, i) => i % step === 0 && !except.has(requestId))
  await closedLoop(sample.length, 8, async (i) => {
    const { crowd, visitor } = holders.get(sample[i]!.requestId)!
    await crowd.repeat(visitor)
  })
}

async function auditAll(world: World, accepted: readonly Acceptance[]): Promise<void> {
  world.progress('auditing')
  for (const { id } of world.campaigns) {
    const verdict = await audit({
      databaseUrl: world.stack.endpoints.postgres,
      redisUrl: world.stack.endpoints.redis,
      campaignId: id,
      told: accepted.filter(({ campaignId }) => campaignId === id),
    })
    world.violations.push(...verdict.violations)
  }
}

function violationsOf(world: World, mismatches: number, fooled: number): string[] {
  const violations = [...world.violations]
  if (mismatches > 0) violations.push(`4: ${mismatches} repeated claims had another answer`)
  if (fooled > 0) violations.push(`10: ${fooled} requests without proof were served`)
  for (const wrong of world.tally.wrong) violations.push(`an answer that nobody should get: ${wrong}`)
  return violations
}

function rounded(figures: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, round(value)]))
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
