/**
 * What a run of the load test leaves behind, as JSON: everything that the report shows, and that a later run is
 * compared with. Plain data, times in ms unless the name says otherwise; a reader of an older version must still
 * understand it, so fields are only ever added.
 */
export interface RunRecord {
  readonly version: 1
  /** RFC 3339 UTC. */
  readonly made_at: string
  /** The command that made it, as typed. */
  readonly command: string
  readonly commit: string
  readonly machine: MachineRecord
  /** How the parts were set: Redis' persistence, Postgres' settings, bounds of the product, of the driver. */
  readonly settings: Readonly<Record<string, Scalar>>
  /** Indexes of the tables that the claim path writes, as Postgres spells them. */
  readonly indexes: readonly string[]
  readonly scenarios: readonly ScenarioRecord[]
  /** The parts of a full run, each made by its own command and merged in by `loadtest -- report`. */
  readonly drills?: readonly DrillRecord[]
  readonly simulation?: SimulationRecord
  readonly peers?: readonly PeerRecord[]
  readonly scale?: readonly ScaleRecord[]
  readonly capacity?: CapacityRecord
  /** Suite → figure → value, as `npm run bench -- all --json` writes them. */
  readonly bench?: Readonly<Record<string, Readonly<Record<string, Scalar>>>>
}

export type Scalar = string | number | boolean

export interface MachineRecord {
  readonly cpus: number
  readonly cpu_model: string
  readonly memory_gib: number
  readonly os: string
  /** Program → version: node, redis, postgres, workerd, tidegate. */
  readonly versions: Readonly<Record<string, string>>
}

/** One named scenario of A4 §15.2, as it was run. */
export interface ScenarioRecord {
  readonly name: string
  readonly title: string
  /** What it does and what it is watched for, in a sentence or two. */
  readonly about: string
  readonly settings: Readonly<Record<string, Scalar>>
  readonly seconds: number
  /** Who came and how often: shares of one-timers, repeaters, late comers, pollers, listeners, bots; campaigns; regions. */
  readonly distribution: readonly { readonly name: string; readonly count: number }[]
  /** Bytes of a typical request and answer, head and body, by kind. */
  readonly sizes: Readonly<Record<string, number>>
  readonly timeline: Timeline
  /** Of whole runs, from when a request was due (no coordinated omission). */
  readonly latencies: readonly LatencyRecord[]
  readonly offered: number
  readonly answered: number
  /** Answers by code (`ACCEPTED`, `REPLAYED`, `SOLD_OUT`, …; `no answer` for a broken connection). */
  readonly codes: Readonly<Record<string, number>>
  /** From the edge to the database, largest first: requests, reached the arbiter, arbitration calls, accepted, … */
  readonly funnel: readonly { readonly stage: string; readonly count: number }[]
  /** Redis commands as Upstash counts them, of the edge and of the core. */
  readonly commands: { readonly edge: number; readonly core: number }
  /** CPU seconds by process. */
  readonly cpu_seconds: Readonly<Record<string, number>>
  /** Further figures that its criteria are judged by, units in their names. */
  readonly figures?: Readonly<Record<string, number>>
  /** Its own criteria, each with what was found. */
  readonly criteria: readonly Criterion[]
  /** The auditor's, by invariant of DESIGN §3. */
  readonly violations: readonly string[]
  readonly passed: boolean
}

/**
 * Samples at equal distances; every series has one value a sample, `null` where nothing could be read.
 * Usual names: `offered`, `accepted`, `refused.CODE`, `delivered` (per second); `remaining`, `backlog` (entries in the
 * logs), `lease_ms` (of the bucket with the least), `accept_p50_ms`, `accept_p99_ms`, `deliver_p99_ms`, `sse_clients`.
 */
export interface Timeline {
  readonly every_ms: number
  readonly series: Readonly<Record<string, readonly (number | null)[]>>
  /** What was done to the system, and when: a kill, a cut, an operator's command. */
  readonly events: readonly { readonly at_ms: number; readonly label: string }[]
}

export interface LatencyRecord {
  /** `accept`, `refuse`, `replay`, `poll`, `deliver` (accepted → told), … */
  readonly name: string
  readonly count: number
  readonly p50_ms: number
  readonly p90_ms: number
  readonly p99_ms: number
  readonly p999_ms: number
  readonly max_ms: number
}

export interface Criterion {
  /** What is asked, with its bound: `accept p99 ≤ 90 ms`. */
  readonly name: string
  /** What was found, with its unit. */
  readonly found: string
  readonly passed: boolean
}

export interface DrillRecord {
  readonly name: string
  readonly about: string
  readonly passed: boolean
  readonly violations: readonly string[]
  readonly figures: Readonly<Record<string, number>>
  /** Why it could not be run here; such a drill has neither passed nor failed. */
  readonly skipped?: string
}

export interface SimulationRecord {
  readonly seeds: number
  readonly steps: number
  readonly seconds: number
  readonly violations: readonly string[]
  /** Planted bugs: within how many seeds each must be caught, and at which it was. */
  readonly mutations: readonly {
    readonly name: string
    readonly about: string
    readonly allowed_seeds: number
    readonly caught_at: number | null
  }[]
}

export interface PeerRecord {
  readonly name: string
  /** The design in a sentence. */
  readonly about: string
  readonly claims_per_second: number
  readonly p99_ms: number
  /** By the same auditor, after its process was killed in the middle. */
  readonly oversold: number
  readonly lost: number
  readonly doubled: number
  /** Stock that is gone, and no coupon came of it. */
  readonly stranded?: number
  /** The same figures by what was killed; the totals above are of all. */
  readonly kills?: readonly PeerKill[]
  /** What was told to clients and what exists, in words, where more is to be said. */
  readonly note: string
}

export interface PeerKill {
  /** The process that answers claims, the one that writes coupons, or the store. */
  readonly kind: 'service' | 'consumer' | 'store'
  readonly times: number
  readonly oversold: number
  readonly lost: number
  readonly doubled: number
  readonly stranded: number
  /** Users who heard yes. */
  readonly promised: number
  /** Of these, told otherwise afterwards with a reason. */
  readonly withdrawn: number
  /** Presses without a final answer. */
  readonly unanswered: number
  readonly coupons: number
  /** Rounds that did not come to rest: judged as they stood. */
  readonly unrested?: number
  /** The longest time without a yes, from a kill on. */
  readonly outage_ms?: number
}

export interface ScaleRecord {
  /** `cluster-8-buckets`, `two-redis`, `cores-3`, … */
  readonly name: string
  readonly about: string
  readonly settings: Readonly<Record<string, Scalar>>
  readonly claims_per_second: number
  readonly delivered_per_second: number
  readonly commands_per_claim: number
  /** Which process was at its limit: the machine, the driver, one Redis, … */
  readonly bound_by: string
  readonly violations: readonly string[]
}

export interface CapacityRecord {
  readonly question: Readonly<Record<string, Scalar>>
  readonly unit_costs: Readonly<Record<string, number>>
  readonly needs: readonly { readonly what: string; readonly amount: string; readonly why: string }[]
  readonly bottleneck: string
  /** Predictions beside measurements of runs that were not used to make the unit costs. */
  readonly validations: readonly {
    readonly run: string
    readonly what: string
    readonly predicted: number
    readonly measured: number
    /** (predicted − measured) / measured. */
    readonly error: number
  }[]
}
