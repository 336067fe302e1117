import { type Calls, callsOf } from './batches.ts'
import type { UnitCosts } from './costs.ts'
import { type Limit, platform } from './limits.ts'
import { checkTraffic, type Traffic } from './traffic.ts'

/** How many there are of each; what is not fixed is made as many as are needed. */
export interface Units {
  readonly isolates: number
  /** Each with one bucket of the campaign. */
  readonly databases: number
  readonly limitDatabases: number
  readonly drains: number
  readonly streamProcesses: number
  readonly readers: number
}

/** A part under its load. */
export interface Station {
  readonly name: string
  readonly units: number
  /** Load of one of them, and what one bears, in the unit of `limit`. */
  readonly load: number
  readonly limit: Limit
  /** load / limit: 1 is full. */
  readonly used: number
}

export interface Flow {
  readonly firstPerSecond: number
  readonly arbiterPerSecond: number
  /** Until the last coupon is taken. */
  readonly sellSeconds: number
  readonly calls: Calls
  /** Beside those of calls: drain, leases. */
  readonly otherCommandsPerSecond: number
  readonly redisCoresBusy: number
  readonly edgeCoresSelling: number
  readonly edgeCoresSoldOut: number
  readonly couponsPerSecond: number
  readonly postgresCores: number
  readonly backlogEntries: number
  readonly pollsPerSecond: number
  readonly tokensPerSecond: number
  readonly streams: number
  readonly commandsInTheHour: number
}

export interface Plan {
  readonly units: Units
  readonly flow: Flow
  /** The fullest first. */
  readonly stations: readonly Station[]
}

/** After this, one claim of an isolate and bucket looks whether it is still sold out (edge/bounds.ts, soldOutFreshMs). */
const soldOutLookMs = 350
/** Users with acceptances, fetched by each isolate once a bucket is sold out (edge/bounds.ts), and what a page takes. */
const holdersPageUsers = 4_000
const commandsPerHoldersPage = 3
/** docs/decisions.md: 100,000 users are 1 MB. */
const bytesPerHolder = 10
const unitsMax = 100_000
/** Of a database's commands, so much is for calls; the rest is for drain and leases. */
const callsShare = 0.7
/** A claim that has just missed a place waits for one, and then for its own call. */
const callsToAnswer = 2

/**
 * Traffic times unit costs, against limits. Nothing is measured here and nothing is random: the same question has the
 * same answer. More traffic never needs fewer of anything.
 * @throws RangeError when the traffic is impossible, or no number of databases would do.
 */
export function makePlan(traffic: Traffic, costs: UnitCosts, fixed: Partial<Units> = {}): Plan {
  checkTraffic(traffic)
  const least = Math.max(1, Math.ceil(traffic.quota / platform.bucketQuota.amount))
  for (let databases = fixed.databases ?? least; databases <= unitsMax; databases = nextCount(databases)) {
    const isolates = fixed.isolates ?? leastIsolates(traffic, costs, databases)
    const flow = flowOf(traffic, costs, isolates, databases)
    const roomy = databaseStations(flow, costs, databases).every(({ used }) => used <= traffic.utilisation)
    if (roomy || fixed.databases !== undefined)
      return complete(traffic, costs, flow, fixed, isolates, databases)
  }
  throw new RangeError(`more than ${unitsMax} databases would be needed`)
}

/** One by one while few, then by hundredths, so that a wild question ends too. */
function nextCount(count: number): number {
  return count + Math.max(1, Math.floor(count / 100))
}

function leastIsolates(traffic: Traffic, costs: UnitCosts, databases: number): number {
  let isolates = Math.max(1, traffic.locations)
  for (; isolates <= unitsMax; isolates = nextCount(isolates)) {
    const { edgeCoresSelling, edgeCoresSoldOut } = flowOf(traffic, costs, isolates, databases)
    if (Math.max(edgeCoresSelling, edgeCoresSoldOut) / isolates <= traffic.utilisation) break
  }
  return isolates
}

const cores = (us: number) => us / platform.threadUs.amount

function flowOf(traffic: Traffic, costs: UnitCosts, isolates: number, databases: number): Flow {
  const { peakPerSecond, repeatShare, botShare, quota } = traffic
  const bots = peakPerSecond * botShare
  const repeats = peakPerSecond * repeatShare
  const first = peakPerSecond - bots - repeats
  const arbiter = first + repeats
  const lanes = isolates * databases
  const shortestMs = traffic.redisRttMs + (costs.redis_us_per_call + costs.redis_us_per_claim) / 1_000
  const calls = callsOf(arbiter, lanes, shortestMs, databases * callsPerDatabase(costs))
  const sellSeconds = quota / first
  const coupons = quota / (sellSeconds + traffic.deliverSeconds)
  // A drain's transaction takes at least this many entries while it is behind, and an entry at least one claim.
  const drainBatches = coupons / platform.entriesPerBatch.amount
  const polls = (quota * traffic.pollerShare * 1_000) / traffic.pollEveryMs
  const tokens = traffic.users / traffic.tokenSeconds
  return {
    firstPerSecond: first,
    arbiterPerSecond: arbiter,
    sellSeconds,
    calls,
    otherCommandsPerSecond:
      drainBatches * costs.commands_per_drain_batch + databases * costs.commands_per_second_idle,
    redisCoresBusy: cores(calls.perSecond * costs.redis_us_per_call + arbiter * costs.redis_us_per_claim),
    edgeCoresSelling: cores(
      calls.perSecond * costs.worker_us_per_call +
        arbiter * costs.worker_us_per_claim +
        bots * costs.worker_us_per_sold_out +
        polls * costs.worker_us_per_poll,
    ),
    edgeCoresSoldOut: cores(peakPerSecond * costs.worker_us_per_sold_out + polls * costs.worker_us_per_poll),
    couponsPerSecond: coupons,
    postgresCores: cores(
      coupons * costs.postgres_us_per_coupon +
        drainBatches * costs.postgres_us_per_drain_batch +
        polls * costs.postgres_us_per_poll,
    ),
    backlogEntries: Math.max(0, quota - coupons * sellSeconds) / calls.claims / databases,
    pollsPerSecond: polls,
    tokensPerSecond: tokens,
    streams: quota * traffic.listenerShare,
    commandsInTheHour: commandsInTheHour(traffic, costs, {
      calls: calls.perSecond,
      sellSeconds,
      lanes,
      databases,
    }),
  }
}

/** Of the hour that begins with the opening, tokens before it included. */
function commandsInTheHour(
  traffic: Traffic,
  costs: UnitCosts,
  selling: { calls: number; sellSeconds: number; lanes: number; databases: number },
): number {
  const { calls, sellSeconds, lanes, databases } = selling
  const hour = 3_600
  const sold = Math.max(0, Math.min(hour, traffic.peakSeconds) - sellSeconds)
  const looks = (lanes * sold * 1_000 * costs.commands_per_other_call) / soldOutLookMs
  const pages = lanes * Math.ceil(traffic.quota / databases / holdersPageUsers) * commandsPerHoldersPage
  return (
    calls * Math.min(hour, sellSeconds) * costs.commands_per_accepting_call +
    looks +
    pages +
    (traffic.quota / platform.entriesPerBatch.amount) * costs.commands_per_drain_batch +
    traffic.users * costs.commands_per_token +
    hour * databases * costs.commands_per_second_idle
  )
}

function station(name: string, units: number, total: number, limit: Limit): Station {
  const load = total / units
  return { name, units, load, limit, used: load / limit.amount }
}

/** Calls a second that a database is planned to take. */
function callsPerDatabase(costs: UnitCosts): number {
  return (platform.commandsPerDatabase.amount * callsShare) / costs.commands_per_accepting_call
}

function databaseStations(flow: Flow, costs: UnitCosts, databases: number): Station[] {
  const { commandsPerDatabase: cap, claimsPerCall } = platform
  const decisions: Limit = {
    amount: callsPerDatabase(costs) * claimsPerCall.amount,
    what: `decisions a second of a database, in full calls at ${callsShare * 100} % of its ${cap.amount} commands`,
    source: `${cap.source}; ${claimsPerCall.source}`,
  }
  const rest: Limit = {
    amount: cap.amount * (1 - callsShare),
    what: 'commands a second of a database for drain and leases',
    source: cap.source,
  }
  const busyUs = flow.redisCoresBusy * platform.threadUs.amount
  return [
    station('decisions of the Redis databases', databases, flow.arbiterPerSecond, decisions),
    station('commands of drain and leases', databases, flow.otherCommandsPerSecond, rest),
    station('CPU of the Redis databases', databases, busyUs, platform.threadUs),
  ]
}

function complete(
  traffic: Traffic,
  costs: UnitCosts,
  flow: Flow,
  fixed: Partial<Units>,
  isolates: number,
  databases: number,
): Plan {
  const enough = (total: number, each: number) => Math.max(1, Math.ceil(total / (each * traffic.utilisation)))
  const tokenCommands = flow.tokensPerSecond * costs.commands_per_token
  const pollUs = flow.pollsPerSecond * costs.core_us_per_poll
  const units: Units = {
    isolates,
    databases,
    limitDatabases: fixed.limitDatabases ?? enough(tokenCommands, platform.commandsPerDatabase.amount),
    drains: fixed.drains ?? enough(flow.couponsPerSecond, costs.coupons_per_second),
    streamProcesses: fixed.streamProcesses ?? enough(flow.streams, platform.streamsPerProcess.amount),
    readers: fixed.readers ?? enough(pollUs, platform.threadUs.amount),
  }
  const edgeUs = Math.max(flow.edgeCoresSelling, flow.edgeCoresSoldOut) * platform.threadUs.amount
  const drainLimit: Limit = {
    amount: costs.coupons_per_second,
    what: 'coupons a second of a drain process with its Postgres',
    source: 'measured unit cost',
  }
  const stations = [
    station('CPU of the isolates', isolates, edgeUs, platform.threadUs),
    station('wait for an answer', 1, callsToAnswer * flow.calls.ms, platform.answerMs),
    station('memory of an isolate', 1, (traffic.quota * bytesPerHolder) / 2 ** 20, platform.isolateMib),
    ...databaseStations(flow, costs, databases),
    station(
      'commands of the limits’ Redis',
      units.limitDatabases,
      tokenCommands,
      platform.commandsPerDatabase,
    ),
    station('coupons of a bucket', databases, traffic.quota, platform.bucketQuota),
    station('entries waiting in a log', 1, flow.backlogEntries, platform.backlogEntries),
    station('age of the oldest acceptance', 1, traffic.deliverSeconds, platform.unsettledSeconds),
    station('drain processes', units.drains, flow.couponsPerSecond, drainLimit),
    station('event streams', units.streamProcesses, flow.streams, platform.streamsPerProcess),
    station('CPU of the core processes that answer polls', units.readers, pollUs, platform.threadUs),
  ]
  return { units, flow, stations: stations.sort((a, b) => b.used - a.used) }
}
