import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { RunRecord, ScenarioRecord } from '../record/record.ts'
import { writeJson } from '../record/store.ts'
import { scenarios } from './all.ts'
import type { Facts } from './facts.ts'
import { printScenario } from './print.ts'
import { runScenario } from './runScenario.ts'

const help = `npm run loadtest -- NAME… | all [options]

Named load scenarios (A4 §15.2), each on a system of its own: worker runtime, gateway, Redis, Postgres and core as
separate processes. People arrive at instants that were planned before (open loop), whatever the system does.

${scenarios.map(({ name, title }) => `  ${name.padEnd(18)} ${title}`).join('\n')}
  all

  --minutes M   how long people come, in each (1); 0.1 for a short form
  --rate R      requests a second at the peak, instead of a share of what a rehearsal shows
  --seed S      of the crowd (1)
  --json FILE   writes the run's record

Exit code 1: a criterion was missed or an invariant broken; 2: wrong arguments.`

/** @returns the exit code */
export async function main(args: readonly string[]): Promise<number> {
  const parsed = parse(args)
  if (parsed === 'help') {
    console.log(help)
    return 0
  }
  if (parsed === undefined) {
    console.error(help)
    return 2
  }
  const home = join(import.meta.dirname, '..', '..', '.tidegate')
  mkdirSync(home, { recursive: true, mode: 0o711 })
  const records: ScenarioRecord[] = []
  const broken: string[] = []
  let facts: Facts | undefined
  for (const scenario of parsed.chosen) {
    console.log(`${scenario.name}: ${scenario.about}`)
    try {
      const result = await runScenario(scenario, { ...parsed, home, progress })
      facts ??= result.facts
      records.push(result.record)
      progress('')
      printScenario(result.record)
    } catch (error) {
      progress('')
      broken.push(scenario.name)
      console.log(`  FAILED  it could not be run: ${(error as Error).message}`)
    }
  }
  if (parsed.json !== undefined && facts !== undefined) {
    const record: RunRecord = {
      version: 1,
      made_at: new Date().toISOString(),
      command: `npm run loadtest -- ${args.join(' ')}`,
      ...facts,
      scenarios: records,
    }
    writeJson(parsed.json, record)
  }
  const missed = [...broken, ...records.filter(({ passed }) => !passed).map(({ name }) => name)]
  console.log(
    missed.length === 0
      ? `loadtest: ${records.length} scenarios passed, every invariant held`
      : `loadtest: ${missed.length} of ${parsed.chosen.length} FAILED: ${missed.join(', ')}`,
  )
  return missed.length === 0 ? 0 : 1
}

function parse(args: readonly string[]) {
  let parsed: ReturnType<typeof read>
  try {
    parsed = read(args)
  } catch {
    return undefined
  }
  const { values, positionals } = parsed
  if (values.help) return 'help' as const
  const chosen = positionals.flatMap((name) =>
    name === 'all' ? scenarios : scenarios.filter((scenario) => scenario.name === name),
  )
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
  const perSecond = values.rate === undefined ? undefined : Number(values.rate)
  const known = positionals.every((name) => name === 'all' || scenarios.some((one) => one.name === name))
  if (chosen.length === 0 || !known) return undefined
  if (!(minutes > 0 && minutes <= 60) || !Number.isInteger(seed)) return undefined
  if (perSecond !== undefined && !(perSecond >= 1)) return undefined
  return { chosen, seconds: minutes * 60, seed, perSecond, json: values.json }
}

function read(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      minutes: { type: 'string', default: '1' },
      rate: { type: 'string' },
      seed: { type: 'string', default: '1' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
}

/** Rewrites the last line, on a terminal. */
function progress(line: string): void {
  if (process.stdout.isTTY)
    process.stdout.write(`\r\x1b[K${line.slice(0, Math.max(20, process.stdout.columns - 1))}`)
}
