import { readFileSync } from 'node:fs'
import type {
  CapacityRecord,
  DrillRecord,
  PeerRecord,
  RunRecord,
  Scalar,
  ScaleRecord,
  SimulationRecord,
} from '../../record/record.ts'
import { readRecord } from '../../record/store.ts'
import { budgets } from './budgets.ts'

/** Files that the commands of the load test's parts leave behind, by the part's name. */
export interface PartFiles {
  readonly drills?: string | undefined
  readonly sim?: readonly string[] | undefined
  readonly bench?: readonly string[] | undefined
  readonly scale?: string | undefined
  readonly peers?: string | undefined
  readonly capacity?: string | undefined
}

/** Drill → what it is about. */
export type Abouts = ReadonlyMap<string, string>

/** A file that is not what its option asks for; says what would be. */
export class PartError extends Error {}

type Entries = Record<string, unknown>
type Bench = Record<string, Record<string, Scalar>>

const isObject = (value: unknown): value is Entries =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new PartError(`${file} can't be read as JSON: ${(error as Error).message}`)
  }
}

/** A list, or the list that stands under `key` in an object (a whole record, or a command's own frame). */
function listIn<Entry>(value: unknown, key: string, fields: readonly string[], file: string): Entry[] {
  const list = isObject(value) ? value[key] : value
  const fits =
    Array.isArray(list) && list.every((entry) => isObject(entry) && fields.every((f) => f in entry))
  if (!fits) throw new PartError(`${file} is no list of ${key} with ${fields.join(', ')}`)
  return list as Entry[]
}

function objectIn<Entry>(value: unknown, key: string, fields: readonly string[], file: string): Entry {
  const inner = isObject(value) && isObject(value[key]) ? value[key] : value
  if (!isObject(inner) || !fields.every((field) => field in inner))
    throw new PartError(`${file} has not the fields of ${key}: ${fields.join(', ')}`)
  return inner as Entry
}

/** Nested figures by their path, `cpu_us.claim.worker`; lists as text. */
export function flatten(figures: Entries, path = ''): Record<string, Scalar> {
  const flat: Record<string, Scalar> = {}
  for (const [name, value] of Object.entries(figures)) {
    if (isObject(value)) Object.assign(flat, flatten(value, `${path}${name}.`))
    else if (Array.isArray(value)) flat[path + name] = value.map(String).join('; ')
    else if (value !== null && value !== undefined) flat[path + name] = value as Scalar
  }
  return flat
}

/** Of `bench -- all`, an object a suite; of one suite its figures, which tell by themselves whose they are. */
function benchOf(value: unknown, file: string): Bench {
  if (!isObject(value)) throw new PartError(`${file} has no figures of npm run bench`)
  const suites = new Set(budgets.flatMap(({ suite }) => suite ?? []))
  const named = Object.entries(value).filter(([name, figures]) => suites.has(name) && isObject(figures))
  if (named.length > 0)
    return Object.fromEntries(named.map(([name, figures]) => [name, flatten(figures as Entries)]))
  const own = [...suites].find((suite) => {
    const figures = budgets.filter((budget) => budget.suite === suite).map(({ figure }) => figure!)
    return figures.every((figure) => figure in value)
  })
  if (own === undefined)
    throw new PartError(`${file} has the figures of no known suite: use bench -- all --json FILE`)
  return { [own]: flatten(value) }
}

/**
 * The record in `file` with the parts of the other files put in; what the record has already and no file names stays.
 * @param abouts for drills, whose file says nothing about it
 * @throws PartError when a file can't be read or is something else.
 */
export function gather(file: string, parts: PartFiles, abouts: Abouts = new Map()): RunRecord {
  const { drills, sim = [], bench = [], scale, peers, capacity } = parts
  const base = readRunRecord(file)
  const simulation = sim
    .map((one) => simulationOf(readJson(one), one))
    .reduce<SimulationRecord | undefined>(together, base.simulation)
  const suites = bench.map((one) => benchOf(readJson(one), one))
  const list = <Entry>(key: string, fields: string[], from: string) =>
    listIn<Entry>(readJson(from), key, fields, from)
  return {
    ...base,
    ...(drills && { drills: drillsOf(readJson(drills), drills, abouts) }),
    ...(simulation && { simulation }),
    ...(suites.length > 0 && { bench: Object.assign({}, base.bench, ...suites) as Bench }),
    ...(peers && {
      peers: list<PeerRecord>('peers', ['name', 'claims_per_second', 'oversold', 'lost', 'doubled'], peers),
    }),
    ...(scale && {
      scale: list<ScaleRecord>('scale', ['name', 'claims_per_second', 'bound_by', 'violations'], scale),
    }),
    ...(capacity && {
      capacity: objectIn<CapacityRecord>(
        readJson(capacity),
        'capacity',
        ['question', 'unit_costs', 'needs', 'bottleneck', 'validations'],
        capacity,
      ),
    }),
  }
}

/** What a later file has, seeds or planted bugs, takes the place of what an earlier one had. */
function together(first: SimulationRecord | undefined, second: SimulationRecord): SimulationRecord {
  if (first === undefined) return second
  const seeds = second.seeds > 0 ? second : first
  return { ...seeds, mutations: second.mutations.length > 0 ? second.mutations : first.mutations }
}

/** @throws PartError when it is no record of a version that we know. */
export function readRunRecord(file: string): RunRecord {
  try {
    const record = readRecord(file)
    if (!Array.isArray(record.scenarios)) throw new Error(`${file} has no scenarios`)
    return record
  } catch (error) {
    throw new PartError((error as Error).message)
  }
}

/** The drill command says what a drill is about on its screen, and not in its JSON. */
function drillsOf(value: unknown, file: string, abouts: Abouts): DrillRecord[] {
  const drills = listIn<DrillRecord>(value, 'drills', ['name', 'passed', 'violations'], file)
  return drills.map((drill) => ({
    ...drill,
    about: drill.about ?? abouts.get(drill.name) ?? '',
    figures: drill.figures ?? {},
  }))
}

/** Of `sim` itself, whose file has either seeds or planted bugs, or of a record that has both. */
function simulationOf(value: unknown, file: string): SimulationRecord {
  const found = objectIn<SimulationRecord>(value, 'simulation', ['seeds', 'steps', 'violations'], file)
  const told: unknown = found.violations
  const violations = Array.isArray(told)
    ? told.map(String)
    : told === 0
      ? []
      : [`${told} violations, not listed`]
  const whole = { ...found, violations, seconds: found.seconds ?? 0, mutations: found.mutations ?? [] }
  // Seeds that ran with a planted bug say nothing about the product.
  const planted = found === value && whole.mutations.length > 0
  return planted ? { ...whole, seeds: 0, steps: 0, seconds: 0 } : whole
}
