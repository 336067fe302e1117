import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { drills } from './drills/all.ts'
import type { DrillResult } from './drills/drill.ts'
import { runDrill } from './drills/runDrill.ts'

const help = `npm run drill -- NAME|all [--json FILE]

A fault with real processes while people claim, each on a stack of its own; then an audit of every invariant by code
that shares nothing with the path.

${drills.map(({ name, about }) => `  ${name.padEnd(28)} ${about}`).join('\n')}
  all

  --json FILE  writes [{name, about, passed, violations, figures}], and skipped: why one could not run here

Each keeps the history of what clients did and heard, and of what was done to the system, in .tidegate/drills/NAME.jsonl.
Exit code 1 when an invariant is broken, 2 with a wrong name.`

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { json: { type: 'string' }, help: { type: 'boolean', short: 'h', default: false } },
  })
  if (values.help) {
    console.log(help)
    return 0
  }
  const chosen = positionals.flatMap((name) =>
    name === 'all' ? drills : drills.filter((drill) => drill.name === name),
  )
  if (chosen.length === 0 || chosen.length < positionals.length) {
    console.error(help)
    return 2
  }
  const home = join(import.meta.dirname, '..', '.tidegate')
  mkdirSync(home, { recursive: true, mode: 0o711 })
  const results: DrillResult[] = []
  for (const drill of chosen) {
    console.log(`drill ${drill.name}: ${drill.about}`)
    const result = await showingTime(() => runDrill(drill, home))
    results.push(result)
    const figures = Object.entries(result.figures).map(([name, value]) => `${name} ${value}`)
    if (result.skipped === undefined)
      console.log(`  ${result.passed ? 'passed' : 'FAILED'}  ${figures.join(', ')}`)
    else console.log(`  NOT RUN: ${result.skipped}`)
    for (const violation of result.violations) console.log(`  ${violation}`)
  }
  if (values.json) writeFileSync(values.json, `${JSON.stringify(results, null, 2)}\n`)
  const skipped = results.filter(({ skipped }) => skipped !== undefined).length
  const failed = results.filter(({ passed }) => !passed).length - skipped
  const left = skipped === 0 ? '' : `, ${skipped} not run`
  console.log(
    failed === 0
      ? `drill: ${results.length - skipped} passed, every invariant held${left}`
      : `drill: ${failed} of ${results.length} FAILED${left}`,
  )
  return failed === 0 ? 0 : 1
}

/** On a terminal, one line that says for how long it has run. */
async function showingTime<T>(work: () => Promise<T>): Promise<T> {
  if (!process.stdout.isTTY) return work()
  const began = performance.now()
  const timer = setInterval(() => {
    process.stdout.write(`\r  running ${Math.round((performance.now() - began) / 1000)} s`)
  }, 1_000)
  try {
    return await work()
  } finally {
    clearInterval(timer)
    process.stdout.write('\r\x1b[K')
  }
}

process.exit(await main())
