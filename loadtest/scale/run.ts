import postgres from 'postgres'
import type { Stack } from '../../stack/stack.ts'
import { audit } from '../audit/audit.ts'
import { readBill } from '../measure/billing.ts'
import type { ScaleRecord } from '../record/record.ts'
import { openCampaign } from '../traffic/campaign.ts'
import { HttpClient } from '../traffic/client.ts'
import { gatherShoppers } from '../traffic/shoppers.ts'
import { type Claim, type Claimed, claimAll, type Outcome } from './claims.ts'
import { boundBy, byKind, type CpuUse, cpuBetween, lookAtCpu } from './cpu.ts'
import type { Setup } from './setups.ts'

export interface RunOptions {
  /** Measured claims, all of which there is stock for. */
  readonly claims: number
  /** Open requests at any time, over all worker runtimes. */
  readonly connections: number
  progress(line: string): void
  /** Before the audit: for tests of what the audit finds. */
  meddle?(campaignIds: readonly string[]): Promise<void>
}

/** Claims before the measured ones: they wait for the leases, fill connections and warm code. */
const warmUpShare = 0.1
const settleWithinMs = 60_000

interface Opened {
  readonly campaignId: string
  readonly redisUrl: string
  readonly warmUp: Claim[]
  readonly measured: Claim[]
}

/** One setup on its stack, measured and audited. */
export async function runSetup(stack: Stack, setup: Setup, options: RunOptions): Promise<ScaleRecord> {
  const perRuntime = Math.ceil(options.connections / stack.scaled.edges.length)
  const clients = stack.scaled.edges.map((url) => new HttpClient(url, perRuntime))
  const sql = postgres(stack.endpoints.postgres, { max: 1, onnotice: () => undefined })
  try {
    const opened: Opened[] = []
    for (const campaign of setup.campaigns) opened.push(await open(stack, clients, setup, campaign, options))
    const told = new Map<string, Outcome[]>(opened.map(({ campaignId }) => [campaignId, []]))
    const take = (claimed: Claimed) => {
      for (const outcome of claimed.accepted) told.get(outcome.claim.campaignId)!.push(outcome)
      return claimed
    }
    // Of all campaigns in turn, as people come to all of them at once.
    const mixed = (of: (one: Opened) => Claim[]) => interleave(opened.map(of))
    take(
      await claimAll(
        mixed((one) => one.warmUp),
        options.connections,
        (n) => options.progress(`${setup.name}: warm-up ${n}`),
      ),
    )
    const settled = () => waitSettled(sql, told, (n) => options.progress(`${setup.name}: delivered ${n}`))
    await settled()

    const billBefore = await readBill(stack)
    const before = lookAtCpu(stack)
    const claimed = take(
      await claimAll(
        mixed((one) => one.measured),
        options.connections,
        (n) => options.progress(`${setup.name}: accepted ${n}/${options.claims}`),
      ),
    )
    const use = cpuBetween(before, lookAtCpu(stack))
    await settled()
    const deliveredSeconds = (performance.now() - before.at) / 1_000
    const bill = await readBill(stack)
    const billed = bill.billed_commands - billBefore.billed_commands
    // Only the edge comes through the gateways, and it sends little else than calls of claims.
    const calls = bill.commands_sent - billBefore.commands_sent
    await options.meddle?.(opened.map(({ campaignId }) => campaignId))
    const violations = await judge(stack, opened, told, claimed)
    return record(setup, { claimed, use, deliveredSeconds, billed, calls, violations })
  } finally {
    for (const client of clients) client.close()
    await sql.end({ timeout: 5 })
  }
}

async function open(
  stack: Stack,
  clients: readonly HttpClient[],
  setup: Setup,
  { store, buckets }: Setup['campaigns'][number],
  options: RunOptions,
): Promise<Opened> {
  const measured = Math.ceil(options.claims / setup.campaigns.length)
  const warmUp = Math.max(8 * buckets, Math.ceil(measured * warmUpShare))
  const now = Date.now()
  const campaignId = await openCampaign(stack, {
    name: `Scale ${setup.name}`,
    quota: (measured + warmUp) * 2,
    startsAtMs: now - 1_000,
    endsAtMs: now + 3_600_000,
    bucketCount: buckets,
    store,
  })
  const gather = () =>
    gatherShoppers(stack, clients[0]!, campaignId, measured + warmUp, (done) =>
      options.progress(`${setup.name}: claim tokens ${done}/${measured + warmUp}`),
    )
  // A machine at its limit may refuse one of thousands for its timeouts: then others come. Only claims are measured.
  const shoppers = await gather().catch(gather)
  const claims = shoppers.map((shopper, i) => ({ campaignId, shopper, client: clients[i % clients.length]! }))
  const redisUrl = stack.scaled.stores.find(({ name }) => name === store)?.redis ?? stack.endpoints.redis
  return { campaignId, redisUrl, warmUp: claims.slice(0, warmUp), measured: claims.slice(warmUp) }
}

function interleave<T>(lists: readonly T[][]): T[] {
  const longest = Math.max(...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
}

/** Until every acceptance is settled in the ledger, or nothing moved for a minute: then the audit says what is lost. */
async function waitSettled(
  sql: postgres.Sql,
  told: ReadonlyMap<string, readonly Outcome[]>,
  progress: (settled: number) => void,
): Promise<void> {
  const wanted = [...told.values()].reduce((sum, { length }) => sum + length, 0)
  let last = -1
  for (let since = Date.now(); Date.now() - since < settleWithinMs; ) {
    const [row] = await sql`
      SELECT count(*)::int AS n FROM claims
      WHERE campaign_id = ANY(${[...told.keys()]}) AND status IN ('DELIVERED', 'REJECTED')`
    const settled = Number(row!['n'])
    progress(settled)
    if (settled >= wanted) return
    if (settled !== last) since = Date.now()
    last = settled
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

async function judge(
  stack: Stack,
  opened: readonly Opened[],
  told: ReadonlyMap<string, readonly Outcome[]>,
  { failed }: Claimed,
): Promise<string[]> {
  const violations = Object.entries(failed).map(
    ([code, count]) => `${count} claims ended in ${code}, with stock left`,
  )
  for (const { campaignId, redisUrl } of opened) {
    const acceptances = told.get(campaignId)!.map(({ claim, requestId }) => ({
      userId: claim.shopper.userId,
      requestId,
    }))
    const target = { databaseUrl: stack.endpoints.postgres, redisUrl, campaignId, told: acceptances }
    violations.push(...(await audit(target)).violations)
  }
  return violations
}

interface Measured {
  readonly claimed: Claimed
  readonly use: CpuUse
  readonly deliveredSeconds: number
  readonly billed: number
  readonly calls: number
  readonly violations: string[]
}

function record(setup: Setup, measured: Measured): ScaleRecord {
  const { claimed, use, deliveredSeconds, billed, calls, violations } = measured
  const count = claimed.accepted.length
  const { cluster, stores = [], cores = 1, workers = 1 } = setup.stack
  const again = Object.values(claimed.again).reduce((sum, n) => sum + n, 0)
  const shares = [...byKind(use)].map(([kind, { cpus }]) => [`cpus_${kind}`, round(cpus, 2)] as const)
  return {
    name: setup.name,
    about: setup.about,
    settings: {
      claims: count,
      buckets: setup.campaigns.map(({ buckets }) => buckets).join(' + '),
      redis:
        (cluster ? `cluster of ${cluster.masters} + ${cluster.replicas}` : '1') +
        (stores.length ? ` and ${stores.length}` : ''),
      cores,
      workers,
      claims_per_call: round(count / Math.max(1, calls), 1),
      asked_again: again,
      ...Object.fromEntries(shares),
      ...(use.machine === undefined ? {} : { cpus_machine: round(use.machine, 2) }),
    },
    claims_per_second: Math.round(count / claimed.seconds),
    delivered_per_second: Math.round(count / deliveredSeconds),
    commands_per_claim: round(billed / Math.max(1, count), 3),
    bound_by: boundBy(use),
    violations,
  }
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits))
}
