import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type Stack, startStack } from '../../stack/stack.ts'
import type { ScaleRecord } from '../record/record.ts'
import { mergeInto, writeJson } from '../record/store.ts'
import { runSetup } from './run.ts'
import { type Setup, setups } from './setups.ts'

const help = `npm run loadtest -- scale [NAME…] [--json FILE]

The same load on more buckets, Redis servers, core processes and worker runtimes, all on this machine: how many claims
a second are accepted and delivered, how many Redis commands a claim is billed, and what was at its limit. Every
setup is audited.

${setups.map(({ name, about }) => `  ${name.padEnd(20)} ${about}`).join('\n')}

  --claims N       measured claims of each setup (6000)
  --connections C  requests under way at any time (64)
  --json FILE      writes the records
  --into FILE      merges them into the record of a run

Exit code 1 when an invariant broke or a claim was refused although there was stock; 2: wrong arguments.`

/** @returns the exit code */
export async function main(args: readonly string[]): Promise<number> {
  const wish = parse(args)
  if (wish === 'help') {
    console.log(help)
    return 0
  }
  if (wish === undefined) {
    console.error(help)
    return 2
  }
  const progress = (line: string) => {
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}`)
  }
  const records = await runAll(wish.chosen, { ...wish, progress }, (record) => {
    progress('')
    console.log(lineOf(record))
    for (const violation of record.violations) console.log(`  BROKEN ${violation}`)
  })
  if (wish.json !== undefined) writeJson(wish.json, records)
  if (wish.into !== undefined) mergeInto(wish.into, { scale: records })
  const broken = records.filter(({ violations }) => violations.length > 0).map(({ name }) => name)
  console.log(
    broken.length === 0
      ? `scale: ${records.length} setups, every invariant held`
      : `scale: FAILED, ${broken.join(', ')}`,
  )
  return broken.length === 0 ? 0 : 1
}

interface Wish {
  chosen: readonly Setup[]
  claims: number
  connections: number
  json: string | undefined
  into: string | undefined
}

function parse(args: readonly string[]): Wish | 'help' | undefined {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        claims: { type: 'string', default: '6000' },
        connections: { type: 'string', default: '64' },
        json: { type: 'string' },
        into: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    if (values.help) return 'help'
    const [claims, connections] = [Number(values.claims), Number(values.connections)]
    const known = positionals.every((name) => setups.some((setup) => setup.name === name))
    if (!known || ![claims, connections].every((n) => Number.isInteger(n) && n > 0)) return undefined
    const chosen = setups.filter(({ name }) => positionals.length === 0 || positionals.includes(name))
    return { chosen, claims, connections, json: values.json, into: values.into }
  } catch {
    return undefined
  }
}

/** Setups in a row with the same stack share it. */
export async function runAll(
  chosen: readonly Setup[],
  options: Parameters<typeof runSetup>[2],
  done: (record: ScaleRecord) => void,
): Promise<ScaleRecord[]> {
  const home = join(import.meta.dirname, '..', '..', '.tidegate')
  mkdirSync(home, { recursive: true, mode: 0o711 })
  const dir = join(home, `scale-${process.pid}`)
  const records: ScaleRecord[] = []
  let stack: Stack | undefined
  let started: string | undefined
  const stop = async () => {
    await stack?.stop()
    stack = undefined
    rmSync(dir, { recursive: true, force: true })
  }
  try {
    for (const setup of chosen) {
      const wanted = JSON.stringify(setup.stack)
      let record: ScaleRecord
      try {
        if (stack === undefined || started !== wanted) {
          await stop()
          options.progress(`${setup.name}: starting its stack`)
          stack = await startStack({ dir, scale: setup.stack })
          started = wanted
        }
        record = await runSetup(stack, setup, options)
      } catch (error) {
        // The others are worth having all the same.
        await stop()
        record = notRun(setup, error as Error)
      }
      records.push(record)
      done(record)
    }
  } finally {
    await stop()
  }
  return records
}

function notRun({ name, about }: Setup, error: Error): ScaleRecord {
  return {
    ...{ name, about, settings: {}, claims_per_second: 0, delivered_per_second: 0, commands_per_claim: 0 },
    bound_by: 'not measured',
    violations: [`it could not be run: ${error.message}`],
  }
}

function lineOf(record: ScaleRecord): string {
  const figures = [
    `${record.claims_per_second} claims/s`.padStart(14),
    `${record.delivered_per_second} delivered/s`.padStart(17),
    `${record.commands_per_claim.toFixed(2)} commands a claim`.padStart(22),
  ]
  return `${record.name.padEnd(18)}${figures.join('')}  bound by ${record.bound_by}`
}
