import type { RunRecord, ScenarioRecord, Timeline } from '../record/record.ts'
import { scenarioNames, titles } from '../scenarios/names.ts'

/** Records as runs leave them, made up from a seed: for the report's own tests and for looking at its page, never as a result. */

/** Park and Miller's generator: the same seed gives the same record. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

function timeline(random: () => number, samples: number, events: Timeline['events']): Timeline {
  const list = (value: (at: number) => number | null) => Array.from({ length: samples }, (_, at) => value(at))
  const noisy = (value: number) => Math.round(value * (0.85 + 0.3 * random()) * 10) / 10
  const rush = (at: number) => 300 + 2700 * Math.exp((-at * 8) / samples)
  const gone = samples * 0.55
  let remaining = 5000
  return {
    every_ms: 250,
    series: {
      offered: list((at) => noisy(rush(at))),
      accepted: list((at) => (at < gone ? noisy(rush(at) * 0.3) : 0)),
      delivered: list((at) => (at < gone + 8 ? noisy(rush(at) * 0.28) : 0)),
      'refused.SOLD_OUT': list((at) => (at < gone ? 0 : noisy(rush(at) * 0.9))),
      'refused.LIMIT_REACHED': list((at) => noisy(rush(at) * 0.15)),
      'refused.BUSY': list((at) => (at > 40 && at < 60 ? noisy(900) : 0)),
      'refused.RATE_LIMITED': list(() => noisy(40)),
      'refused.TOKEN_INVALID': list(() => noisy(25)),
      'refused.TOKEN_EXPIRED': list(() => noisy(6)),
      'refused.OUTCOME_UNKNOWN': list((at) => (at === 41 ? 12 : 0)),
      'refused.ENDED': list(() => noisy(2)),
      remaining: list((at) => {
        remaining = Math.max(0, remaining - (at < gone ? 5000 / gone : 0))
        return at > 40 && at < 44 ? null : Math.round(remaining)
      }),
      backlog: list((at) => noisy(at > 40 && at < 70 ? 400 : 20)),
      lease_ms: list((at) => (at > 42 && at < 58 ? 0 : noisy(4000))),
      accept_p50_ms: list(() => noisy(9)),
      accept_p99_ms: list((at) => noisy(at > 40 && at < 60 ? 240 : 45)),
      deliver_p99_ms: list((at) => noisy(at > 40 && at < 70 ? 3200 : 420)),
      sse_clients: list((at) => Math.min(800, at * 12)),
    },
    events,
  }
}

const latency = (name: string, count: number, p50: number) => ({
  name,
  count,
  p50_ms: p50,
  p90_ms: p50 * 2.2,
  p99_ms: p50 * 5,
  p999_ms: p50 * 11,
  max_ms: p50 * 17,
})

/** One scenario, with faults where the name speaks of one. */
export function sampleScenario(name: string, title: string, seed: number, samples = 240): ScenarioRecord {
  const random = seeded(seed)
  const faulty = /redis|slow/.test(name)
  const events = faulty
    ? [
        { at_ms: 10_000, label: 'Redis killed' },
        { at_ms: 12_500, label: 'Redis started again' },
      ]
    : []
  const p99 = Math.round(40 + 20 * random())
  return {
    name,
    title,
    about:
      'A crowd comes at the opening, most of it within seconds; watched for latencies, refusals and stock.',
    settings: {
      rate_per_s: 3000,
      quota: 5000,
      buckets: name === 'buckets' ? 8 : 1,
      minutes: 1,
      tokens: 'fetched before',
    },
    seconds: (samples * 250) / 1000,
    distribution: [
      { name: 'come once', count: 14_200 },
      { name: 'press again with the same key', count: 3900 },
      { name: 'bots without a login', count: 820 },
      { name: 'region Asia', count: 12_100 },
    ],
    sizes: { 'claim, request': 742, 'claim, answer': 811, 'poll, request': 512 },
    timeline: timeline(random, samples, events),
    latencies: [
      latency('accept', 5000, p99 / 5),
      latency('refuse', 41_000, 2.1),
      latency('replay', 3900, 6),
      latency('deliver', 5000, 90 + 20 * random()),
    ],
    offered: 52_340,
    answered: 52_328,
    codes: {
      ACCEPTED: 5000,
      REPLAYED: 3900,
      SOLD_OUT: 38_000,
      LIMIT_REACHED: 4100,
      RATE_LIMITED: 1316,
      'no answer': 12,
    },
    funnel: [
      { stage: 'requests', count: 52_340 },
      { stage: 'reached the arbiter', count: 14_020 },
      { stage: 'accepted', count: 5000 },
      { stage: 'coupons', count: 5000 },
      { stage: 'arbitration calls', count: 960 },
      { stage: 'Postgres transactions', count: 140 },
    ],
    commands: { edge: 6720, core: 3150 },
    cpu_seconds: { worker: 31.2, gateway: 9.4, redis: 5.1, core: 11.9, postgres: 8.8, driver: 22 },
    figures: { watchers_told: 812, back_after_ms: 2310 },
    criteria: [
      { name: 'accept p99 ≤ 90 ms', found: `${p99} ms`, passed: true },
      { name: 'coupons ≤ quota', found: '5,000 of 5,000', passed: true },
    ],
    violations: [],
    passed: true,
  }
}

/** Everything that a full run has, ten scenarios of 300 samples unless told otherwise. */
export function sampleRecord(
  seed = 1,
  samples = 300,
): RunRecord & Required<Pick<RunRecord, 'drills' | 'bench'>> {
  return {
    version: 1,
    made_at: '2026-11-29T12:00:00Z',
    command: 'npm run loadtest -- all --minutes 1 --json run.json',
    commit: '0123abc',
    machine: {
      cpus: 2,
      cpu_model: 'Sample processor',
      memory_gib: 8,
      os: 'Debian 12',
      versions: {
        node: '24.21.0',
        redis: '7.0.15',
        postgres: '18.4',
        workerd: '1.20261117.0',
        tidegate: '0.1.0',
      },
    },
    settings: {
      'redis.appendonly': 'yes',
      'redis.appendfsync': 'everysec',
      'postgres.fsync': 'on',
      'lease ms': 5000,
    },
    indexes: ['CREATE UNIQUE INDEX claims_pkey ON claims USING btree (user_id, request_id)'],
    scenarios: scenarioNames.map((name, i) => sampleScenario(name, titles[name], seed * 100 + i, samples)),
    drills: ['core-killed', 'redis-flushed', 'network-edge-gateway'].map((name) => ({
      name,
      about: `What happens in ${name}, and what must come of it.`,
      passed: true,
      violations: [],
      figures: { accepted: 812, back_after_ms: 2310, seconds: 14.2 },
    })),
    simulation: {
      seeds: 1000,
      steps: 412_000,
      seconds: 201,
      violations: [],
      mutations: ['ack before commit', 'compensation on timeout', 'lease ignored'].map((name, i) => ({
        name,
        about: `${name}, as it is often done.`,
        allowed_seeds: 200,
        caught_at: 3 + 17 * i,
      })),
    },
    peers: [
      { name: 'tidegate', claims_per_second: 2900, oversold: 0, lost: 0, doubled: 0 },
      { name: 'flash-sale-script', claims_per_second: 6100, oversold: 0, lost: 14, doubled: 0 },
      { name: 'lock', claims_per_second: 900, oversold: 3, lost: 0, doubled: 1 },
    ].map((peer) => ({
      ...peer,
      kills: [
        {
          ...peer,
          kind: 'service',
          times: 5,
          stranded: 2,
          promised: 400,
          withdrawn: 0,
          unanswered: 3,
          coupons: 400,
        },
      ],
      about: `The design of ${peer.name}.`,
      p99_ms: 61,
      note: 'As told by the auditor.',
    })),
    scale: ['one-bucket', 'cluster-8-buckets', 'cores-3'].map((name, i) => ({
      name,
      about: `The path as ${name}.`,
      settings: { buckets: 1 + i, cores: i },
      claims_per_second: 2100 + 200 * i,
      delivered_per_second: 1900 + 100 * i,
      commands_per_claim: 0.4 + 0.1 * i,
      bound_by: 'the machine: 198 % of 200 % CPU',
      violations: [],
    })),
    capacity: {
      question: { target_per_s: 100_000, quota: 50_000 },
      unit_costs: { claim_cpu_us: 158, soldout_cpu_us: 61 },
      needs: [{ what: 'Redis databases', amount: '1', why: 'decisions at the peak take 31 % of one' }],
      bottleneck: 'Postgres transactions, with 2.1 × head-room.',
      validations: [
        { run: 'flash', what: 'commands a claim', predicted: 0.41, measured: 0.44, error: -0.068 },
      ],
    },
    bench: {
      lua: {
        ratio_batch32: 5.1,
        ratio_batch32_pipelined: 2.4,
        ratio_single: 0.71,
        commands_per_claim_32: 0.22,
        bytes_per_claim: 114.5,
        batch32_per_s: 152_000,
        'budgets.ratio_batch32 ≥ 4': true,
      },
      edge: { ratio_soldout: 0.93, ratio_claim: 0.57, soldout_commands_per_request: 0.01, claim_per_s: 3400 },
      drain: { ratio: 0.81, raw_per_s: 9100, drain_per_s: 7400 },
      sse: { kb_per_connection: 14.2, last_told_ms: 610, connections: 10_000 },
    },
  }
}

/** A record in which nothing was run yet. */
export function emptyRecord(): RunRecord {
  const {
    drills: _1,
    bench: _2,
    simulation: _3,
    peers: _4,
    scale: _5,
    capacity: _6,
    ...record
  } = sampleRecord(1, 1)
  return { ...record, settings: {}, indexes: [], scenarios: [], machine: { ...record.machine, versions: {} } }
}

/** A record whose every text and name of a series tries to become a part of the page. */
export function hostileRecord(): { record: RunRecord; attack: string } {
  const attack = '</title></style><script>alert(1)</script><img src="https://x.test/a" onerror=alert(1)>'
  const sample = sampleRecord(1, 20)
  const renamed = JSON.stringify({ ...sample, scenarios: sample.scenarios.slice(5, 6) }, (_, value) =>
    typeof value === 'string' ? `${attack}${value}` : value,
  )
  const record = JSON.parse(renamed, (name, value) =>
    name === 'series' ? { [`refused.${attack}`]: [1, 2], [attack]: [3, 4], ...value } : value,
  )
  return { record, attack }
}
