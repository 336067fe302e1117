import { gateKey } from '../../lua/keys.ts'
import { bucketOf } from '../../schema/hash.ts'
import { parseKeyring } from '../../schema/sealed.ts'
import { judgeStores, readGates, readLedger } from './audit.ts'
import { Director } from './director.ts'
import { LocationStore } from './edge.ts'
import { type Ground, publish, ringSpecs } from './ground.ts'
import { judgeAnswers } from './judge.ts'
import { Network } from './network.ts'
import { type Plan, planOf } from './plan.ts'
import { seeded } from './random.ts'
import { Scheduler, within } from './scheduler.ts'
import { RedisServer } from './server.ts'
import { Town } from './town.ts'
import { Trace } from './trace.ts'
import { enter } from './virtual/globals.ts'

/** What became of one seed. */
export interface SeedResult {
  seed: number
  /** Events of the scheduler. */
  steps: number
  virtualMs: number
  /** Of all steps, in order: the same for a replay. */
  hash: string
  /** Each broken invariant, by its number in DESIGN §3, in words. */
  violations: string[]
  /** Every step; only kept where it is needed. */
  trace: Trace
  plan: Plan
  /** How many: what the seed was worth. */
  counts: {
    acceptances: number
    coupons: number
    rejected: number
    losses: number
    returns: number
    transfers: number
  }
}

/** Later than any real clock: nothing that was made in it is older than a look-back of the product. */
const epochMs = Date.UTC(2040, 0, 1)

/** Runs one seed to its end and judges it. @throws on a fault of the simulation itself. */
export async function runSeed(ground: Ground, seed: number): Promise<SeedResult> {
  const plan = planOf(seed)
  await ground.clear()
  const scheduler = new Scheduler(epochMs, seeded(seed, 'order'))
  enter({ scheduler, random: seeded(seed, 'product') })
  const campaignId = await publish(ground, plan, epochMs)
  const trace = new Trace(epochMs)
  const network = new Network(scheduler, trace, seeded(seed, 'network'), plan)
  const buckets = Array.from({ length: plan.bucketCount }, (_, bucket) => ({ campaignId, bucket }))
  const server = new RedisServer(ground.redis, scheduler, buckets)
  const town = makeTown(ground, plan, network, server, campaignId)
  const director = new Director(town, server, ground)
  within(town.world, 'director', () => {
    town.start()
    director.direct().catch((error) => scheduler.fail(error))
  })
  try {
    await scheduler.run(() => director.isDone)
  } catch (error) {
    throw new Error(
      `seed ${seed} can't be simulated; the last steps:\n${trace.lines.slice(-40).join('\n')}`,
      {
        cause: error,
      },
    )
  }
  town.isOver = true

  const ledger = await readLedger(ground.sql, campaignId)
  const gates = await readGates(ground.redis, campaignId, plan.bucketCount)
  const gateOf = (userId: string) =>
    gateKey({ campaignId, bucket: bucketOf(userId, campaignId, plan.bucketCount) })
  const testimony = {
    record: town.record,
    ledger,
    lossesAtMs: server.lossesAtMs,
    rebuildsOf: (userId: string) => server.rebuildsAtMs.get(gateOf(userId)) ?? [],
    momentsOf: (userId: string) => server.moments.get(gateOf(userId)) ?? [],
  }
  const violations = [
    ...new Set([
      ...server.faults,
      ...town.faults,
      ...director.faults,
      ...judgeStores(ledger, gates, server.losses),
      ...judgeAnswers(testimony),
    ]),
  ]
  const [moved] = await ground.sql<{ n: number }[]>`SELECT count(*)::int AS n FROM transfers`
  const counts = {
    acceptances: town.record.acceptances.size,
    coupons: ledger.coupons.length,
    rejected: ledger.claims.filter(({ status }) => status === 'REJECTED').length,
    losses: server.losses,
    returns: gates.returned,
    transfers: moved!.n,
  }
  return {
    seed,
    steps: scheduler.events,
    virtualMs: scheduler.elapsedMs,
    hash: trace.hash,
    violations,
    trace,
    plan,
    counts,
  }
}

function makeTown(
  ground: Ground,
  plan: Plan,
  network: Network,
  server: RedisServer,
  campaignId: string,
): Town {
  const { macFor } = ground.edgeModules
  const keys = {
    claimToken: parseKeyring('claim', ringSpecs.claimToken, macFor),
    receipt: parseKeyring('receipt', ringSpecs.receipt, macFor),
    campaignId: parseKeyring('campaign', ringSpecs.campaignId, macFor),
  }
  const { database, keyrings, edgeModules: modules, sql } = ground
  return new Town({
    plan,
    network,
    server,
    random: seeded(plan.seed, 'town'),
    campaignId,
    core: { database, server, network, bus: { subscribers: new Set() }, keyrings },
    edge: {
      modules,
      server,
      network,
      random: seeded(plan.seed, 'edge'),
      campaignId,
      keys,
      cache: new LocationStore(),
    },
    async readVersion() {
      const [row] = await network.scheduler.real(sql`SELECT version::int FROM campaigns`)
      return Number(row!['version'])
    },
  })
}
