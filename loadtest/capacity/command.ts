import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startPatiently } from '../measure/patientStart.ts'
import type { CapacityRecord } from '../record/record.ts'
import { mergeInto, writeJson } from '../record/store.ts'
import { type Costs, parseCosts, unitMeanings } from './costs.ts'
import { measureCosts } from './measure.ts'
import { bottleneckOf, inWords, needsOf } from './needs.ts'
import { makePlan, type Units } from './plan.ts'
import { Rig } from './rig.ts'
import { checkTraffic, type Traffic, usual } from './traffic.ts'
import { errorMax, validate } from './validate.ts'

const help = `npm run loadtest -- capacity [options]

From a description of the traffic and unit costs: how many isolates, databases, buckets, processes and commands an
opening needs, which part is the bottleneck, and how much head-room is left, against published platform limits.
Without --costs the unit costs are measured on this machine, and then predictions of runs that were not used for them
are compared with these runs: each must be within 25 %.

  --target N         claims a second at the peak (100000)
  --quota N          coupons (50000)
  --users N          people who fetch a token before (10 × quota)
  --peak-seconds N   how long the peak lasts (${usual.peakSeconds})
  --token-seconds N  over how long before the opening tokens are fetched (${usual.tokenSeconds})
  --repeats S        share of repetitions of accepted claims (${usual.repeatShare})
  --bots S           share refused at the gate (${usual.botShare})
  --pollers S        share of the accepted who poll (${usual.pollerShare}), --poll-ms N how often (${usual.pollEveryMs})
  --listeners S      share of the accepted with an event stream (${usual.listenerShare})
  --deliver N        seconds within which the last acceptance is a coupon (${usual.deliverSeconds})
  --locations N      places where the gate runs (${usual.locations})
  --rtt-ms N         from an isolate to its Redis and back (${usual.redisRttMs})
  --utilisation S    how busy a part may be planned (${usual.utilisation})

  --isolates N, --databases N, --drains N, --stream-processes N, --readers N
                     so many there are: where that is too few, the bottleneck says by how much

  --costs FILE       unit costs from a file instead of measuring; no runs then, and nothing is validated
  --save-costs FILE  writes what was measured
  --json FILE        writes the record; --into FILE merges it into the record of a run

Exit code 1: a prediction was off by more than 25 %, or a part is over its limit.`

const othersShareMax = 0.1

const options = {
  target: { type: 'string', default: '100000' },
  quota: { type: 'string', default: '50000' },
  users: { type: 'string' },
  'peak-seconds': { type: 'string', default: String(usual.peakSeconds) },
  'token-seconds': { type: 'string', default: String(usual.tokenSeconds) },
  repeats: { type: 'string', default: String(usual.repeatShare) },
  bots: { type: 'string', default: String(usual.botShare) },
  pollers: { type: 'string', default: String(usual.pollerShare) },
  'poll-ms': { type: 'string', default: String(usual.pollEveryMs) },
  listeners: { type: 'string', default: String(usual.listenerShare) },
  deliver: { type: 'string', default: String(usual.deliverSeconds) },
  locations: { type: 'string', default: String(usual.locations) },
  'rtt-ms': { type: 'string', default: String(usual.redisRttMs) },
  utilisation: { type: 'string', default: String(usual.utilisation) },
  isolates: { type: 'string' },
  databases: { type: 'string' },
  drains: { type: 'string' },
  'stream-processes': { type: 'string' },
  readers: { type: 'string' },
  costs: { type: 'string' },
  'save-costs': { type: 'string' },
  json: { type: 'string' },
  into: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type Values = ReturnType<typeof parse>['values']
const parse = (args: readonly string[]) => parseArgs({ args: [...args], options })

export async function main(args: readonly string[]): Promise<number> {
  let values: Values
  let traffic: Traffic
  let fixed: Partial<Units>
  try {
    values = parse(args).values
    traffic = trafficOf(values)
    fixed = fixedOf(values)
    checkTraffic(traffic)
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`)
    return 2
  }
  if (values.help) {
    console.log(help)
    return 0
  }
  const progress = (line: string) => {
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}`)
  }
  const measured = values.costs
    ? { costs: parseCosts(readFileSync(values.costs, 'utf8')), validations: [], othersShare: 0 }
    : await measureAndValidate(progress)
  progress('')
  if (values['save-costs']) writeJson(values['save-costs'], measured.costs)
  return answer(values, traffic, fixed, measured)
}

function trafficOf(values: Values): Traffic {
  const quota = Number(values.quota)
  return {
    peakPerSecond: Number(values.target),
    peakSeconds: Number(values['peak-seconds']),
    quota,
    users: Number(values.users ?? 10 * quota),
    tokenSeconds: Number(values['token-seconds']),
    repeatShare: Number(values.repeats),
    botShare: Number(values.bots),
    pollerShare: Number(values.pollers),
    listenerShare: Number(values.listeners),
    pollEveryMs: Number(values['poll-ms']),
    deliverSeconds: Number(values.deliver),
    locations: Number(values.locations),
    redisRttMs: Number(values['rtt-ms']),
    utilisation: Number(values.utilisation),
  }
}

function fixedOf(values: Values): Partial<Units> {
  const fixed: Record<string, number> = {}
  for (const [name, value] of [
    ['isolates', values.isolates],
    ['databases', values.databases],
    ['drains', values.drains],
    ['streamProcesses', values['stream-processes']],
    ['readers', values.readers],
  ] as const) {
    if (value === undefined) continue
    const count = Number(value)
    if (!Number.isInteger(count) || count < 1) throw new RangeError(`${name} must be a whole number from 1`)
    fixed[name] = count
  }
  return fixed
}

interface Known {
  readonly costs: Costs
  readonly validations: CapacityRecord['validations']
  /** Of the machine, while the rest was measured. */
  readonly othersShare: number
}

async function measureAndValidate(progress: (line: string) => void): Promise<Known> {
  const home = join(import.meta.dirname, '..', '..', '.tidegate')
  mkdirSync(home, { recursive: true, mode: 0o711 })
  const dir = join(home, `capacity-${process.pid}`)
  progress('starting Postgres, Redis, gateway, core and worker')
  const stack = await startPatiently({ dir, home })
  const rig = new Rig(stack)
  try {
    const costs = await measureCosts(rig, progress)
    const validations = await validate(rig, costs, progress)
    return { costs, validations, othersShare: rig.othersShare }
  } finally {
    await rig.close()
    await stack.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

function answer(values: Values, traffic: Traffic, fixed: Partial<Units>, known: Known): number {
  const { costs, validations, othersShare } = known
  const plan = makePlan(traffic, costs.unit, fixed)
  const record: CapacityRecord = {
    question: {
      ...traffic,
      ...fixed,
      costs_measured_at: costs.measured_at,
      costs_where: costs.where,
      others_share: Math.round(othersShare * 100) / 100,
    },
    unit_costs: { ...costs.unit, ...costs.local },
    needs: needsOf(traffic, costs.unit, plan),
    bottleneck: bottleneckOf(plan),
    validations,
  }
  print(record, plan.stations.map(inWords))
  if (values.json) writeJson(values.json, record)
  if (values.into) mergeInto(values.into, { capacity: record })
  if (othersShare > othersShareMax)
    console.log(
      `Others took ${Math.round(othersShare * 100)} % of this machine meanwhile: how long calls take, and so how many claims they carry, can be predicted on a quiet one only.`,
    )
  const off = validations.filter(({ error }) => Math.abs(error) > errorMax).length
  const over = plan.stations.filter(({ used }) => used > 1).length
  const proof =
    validations.length === 0
      ? 'not validated (costs from a file)'
      : off === 0
        ? `${validations.length} predictions within 25 %`
        : `${off} of ${validations.length} predictions OFF by more than 25 %`
  const verdict = over === 0 ? 'enough' : `NOT ENOUGH, ${over} part(s) over their limit`
  console.log(`capacity: ${verdict}; bottleneck ${plan.stations[0]!.name}; ${proof}`)
  return off > 0 || over > 0 ? 1 : 0
}

function print(record: CapacityRecord, stations: readonly string[]): void {
  console.log('Unit costs')
  for (const [name, meaning] of Object.entries(unitMeanings))
    console.log(`  ${name.padEnd(30)} ${String(record.unit_costs[name]).padStart(10)}  ${meaning}`)
  console.log('Needs')
  for (const { what, amount, why } of record.needs)
    console.log(`  ${what.padEnd(32)} ${amount}\n${' '.repeat(35)}${why}`)
  console.log('Parts, the fullest first')
  for (const line of stations) console.log(`  ${line}`)
  if (record.validations.length > 0) console.log('Predictions')
  for (const { run, what, predicted, measured, error } of record.validations) {
    const percent = `${error > 0 ? '+' : ''}${Math.round(error * 100)} %`
    const mark = Math.abs(error) <= errorMax ? '' : '  OFF'
    console.log(`  ${run.padEnd(42)} ${what.padEnd(30)} ${predicted} / ${measured}  ${percent}${mark}`)
  }
}
