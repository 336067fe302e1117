import { writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { parseArgs } from 'node:util'
import type { SimulationRecord } from '../record/record.ts'
import { type SeedReport, simulateSeeds } from './fleet.ts'
import { type Mutation, mutations } from './mutations.ts'

const help = `npm run sim -- [--seeds N] [--seed S] [--mutations | --mutation NAME] [--workers W] [--json F]

Runs the product's own claim path on virtual time, with its real scripts in Redis and its real statements in Postgres,
through small worlds that follow from a seed: crashes, lost and late answers, rewinds of Redis, operators, retries.
An auditor holds what clients were told and what the stores hold against the invariants.

  --seeds N        simulate N seeds (1,000 without it)
  --seed S         the first seed; alone: replay it, and tell every step
  --mutations      plant each known bug and see at which seed it is caught
  --mutation NAME  only this one; with --seed or --seeds: simulate those with it
  --workers W      processes at once (all cores without it)
  --json F         write the result there

Planted bugs: ${mutations.map(({ name }) => name).join(', ')}

Exit code 1: an invariant was broken, or a planted bug was not caught; 2: wrong arguments.`

interface Options {
  seeds: number
  first: number
  whole: boolean
  mutation: Mutation | undefined
  /** To be caught one after the other; undefined: simulate. */
  plant: readonly Mutation[] | undefined
  workers: number
  json: string | undefined
}

/** @returns the exit code */
export async function main(args: readonly string[]): Promise<number> {
  let options: Options | undefined
  try {
    options = read(args)
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`)
    return 2
  }
  if (options === undefined) {
    console.log(help)
    return 0
  }
  let record: SimulationRecord
  try {
    record = options.plant === undefined ? await simulate(options) : await plant(options.plant, options)
  } catch (error) {
    progress(undefined)
    console.error(`sim: the simulation itself failed, so nothing is known:\n${(error as Error).message}`)
    return 1
  }
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(record, null, 2)}\n`)
  const missed = record.mutations.filter(({ caught_at }) => caught_at === null).length
  return record.violations.length > 0 || missed > 0 ? 1 : 0
}

function read(args: readonly string[]): Options | undefined {
  const { values } = parseArgs({
    args: [...args],
    options: {
      seeds: { type: 'string' },
      seed: { type: 'string' },
      mutation: { type: 'string' },
      mutations: { type: 'boolean' },
      workers: { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return undefined
  const number = (name: string, text: string | undefined, otherwise: number) => {
    if (text === undefined) return otherwise
    if (!/^\d{1,9}$/.test(text) || Number(text) === 0)
      throw new Error(`--${name} takes a whole number from 1`)
    return Number(text)
  }
  const mutation = mutations.find(({ name }) => name === values.mutation)
  if (values.mutation !== undefined && mutation === undefined)
    throw new Error(`--mutation: there is no ${values.mutation}`)
  const one = values.seed !== undefined && values.seeds === undefined
  const chosen = values.seed !== undefined || values.seeds !== undefined
  return {
    seeds: number('seeds', values.seeds, one ? 1 : 1_000),
    first: number('seed', values.seed, 1),
    whole: one,
    mutation,
    plant: values.mutations ? mutations : mutation !== undefined && !chosen ? [mutation] : undefined,
    workers: number('workers', values.workers, availableParallelism()),
    json: values.json,
  }
}

async function simulate(options: Options): Promise<SimulationRecord> {
  const { seeds, first, whole, mutation, workers } = options
  const started = performance.now()
  const sum = {
    done: 0,
    steps: 0,
    virtualMs: 0,
    acceptances: 0,
    coupons: 0,
    rejected: 0,
    losses: 0,
    returns: 0,
  }
  const violations: { seed: number; what: string }[] = []
  await simulateSeeds({
    seeds: Array.from({ length: seeds }, (_, i) => first + i),
    workers,
    whole,
    ...(mutation === undefined ? {} : { mutation: mutation.name }),
    onResult(report) {
      add(sum, report)
      for (const what of report.violations) violations.push({ seed: report.seed, what })
      if (report.violations.length > 0 || whole) show(report, mutation)
      progress(`${sum.done} of ${seeds} seeds, ${sum.steps} steps, ${violations.length} violations`)
      return true
    },
  })
  progress(undefined)
  violations.sort((a, b) => a.seed - b.seed)
  const seconds = (performance.now() - started) / 1000
  const broken = new Set(violations.map(({ seed }) => seed)).size
  console.log(
    `sim: ${sum.done} seeds, ${sum.steps} steps, ${Math.round(sum.virtualMs / 1000)} s of virtual time in ${seconds.toFixed(1)} s; ` +
      `${sum.acceptances} acceptances, ${sum.coupons} coupons, ${sum.rejected} rejected, ${sum.returns} returns, ${sum.losses} losses of Redis; ` +
      (broken === 0 ? 'every invariant held' : `invariants BROKEN in ${broken} seeds`),
  )
  return {
    seeds: sum.done,
    steps: sum.steps,
    seconds: Number(seconds.toFixed(1)),
    violations: violations.map(({ seed, what }) => `seed ${seed}: ${what}`),
    mutations: [],
  }
}

function add(
  sum: { done: number; steps: number; virtualMs: number } & Omit<SeedReport['counts'], 'transfers'>,
  { steps, virtualMs, counts }: SeedReport,
): void {
  sum.done += 1
  sum.steps += steps
  sum.virtualMs += virtualMs
  for (const name of ['acceptances', 'coupons', 'rejected', 'losses', 'returns'] as const)
    sum[name] += counts[name]
}

function show({ seed, hash, story, violations }: SeedReport, mutation: Mutation | undefined): void {
  progress(undefined)
  const planted = mutation === undefined ? '' : ` --mutation ${mutation.name}`
  console.log(`seed ${seed} (trace ${hash})\n${story.join('\n')}`)
  if (violations.length > 0) console.log(`again, with every step: npm run sim -- --seed ${seed}${planted}\n`)
}

/** Each planted bug, until it is caught or its seeds are over; several at once. */
async function plant(planted: readonly Mutation[], { workers }: Options): Promise<SimulationRecord> {
  const started = performance.now()
  const found: SimulationRecord['mutations'][number][] = []
  let [seeds, steps] = [0, 0]
  const queue = [...planted]
  const work = async () => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      const { name, about, seeds: allowed } = one
      let caught: SeedReport | undefined
      await simulateSeeds({
        seeds: Array.from({ length: allowed }, (_, i) => i + 1),
        workers: 1,
        mutation: name,
        onResult(report) {
          seeds += 1
          steps += report.steps
          if (report.violations.length > 0) caught = report
          progress(
            `${found.length} of ${planted.length} planted bugs; ${name}: seed ${report.seed} of ${allowed}`,
          )
          return caught === undefined
        },
      })
      found.push({ name, about, allowed_seeds: allowed, caught_at: caught?.seed ?? null })
      progress(undefined)
      const how =
        caught === undefined
          ? `NOT CAUGHT in ${allowed} seeds`
          : `caught at seed ${caught.seed} of ${allowed}: ${caught.violations[0]}`
      console.log(`  ${name.padEnd(34)} ${how}`)
    }
  }
  await Promise.all(Array.from({ length: Math.min(workers, planted.length) }, work))
  const order = mutations.map(({ name }) => name)
  found.sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name))
  const missed = found.filter(({ caught_at }) => caught_at === null)
  const verdict =
    missed.length === 0 ? 'all caught' : `NOT caught: ${missed.map(({ name }) => name).join(', ')}`
  console.log(`sim: ${found.length} planted bugs, ${seeds} seeds, ${steps} steps; ${verdict}`)
  return {
    seeds,
    steps,
    seconds: Number(((performance.now() - started) / 1000).toFixed(1)),
    violations: [],
    mutations: found,
  }
}

/** One line that is written over, where somebody looks on. */
function progress(text: string | undefined): void {
  if (!process.stdout.isTTY) return
  process.stdout.write(`\r\u001b[K${text ?? ''}`)
}
