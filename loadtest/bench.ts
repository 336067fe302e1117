import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { drainSuite } from './bench/drain.ts'
import { edgeSuite } from './bench/edge.ts'
import { luaSuite } from './bench/lua.ts'
import { sseSuite } from './bench/sse.ts'
import type { Suite } from './bench/suite.ts'

const suites: Suite[] = [luaSuite, edgeSuite, drainSuite, sseSuite]

const help = `npm run bench -- SUITE [--json FILE] [--turns N]

Measures one part beside its yardsticks in the same run; ratios count, since machines are noisy.

${suites.map(({ name, about }) => `  ${name.padEnd(8)} ${about}`).join('\n')}
  all      every suite

  --json FILE  writes the figures
  --turns N    how often the cases are repeated (3; edge: three short turns each); a figure is the median
  --strict     exit 1 when a budget is missed`

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      json: { type: 'string' },
      turns: { type: 'string', default: '3' },
      strict: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const chosen = positionals[0] === 'all' ? suites : suites.filter(({ name }) => name === positionals[0])
  const turns = Number(values.turns)
  if (values.help) {
    console.log(help)
    return 0
  }
  if (chosen.length === 0 || !Number.isInteger(turns) || turns < 1) {
    console.error(help)
    return 2
  }
  const results: Record<string, unknown> = {}
  let missed = 0
  for (const suite of chosen) {
    console.log(`bench ${suite.name}: ${suite.about}`)
    const { result, budgets } = await suite.run({ say: (line) => console.log(line), turns })
    results[suite.name] = { ...result, budgets }
    for (const [name, value] of Object.entries(result)) {
      if (typeof value === 'number') console.log(`  ${name.padEnd(36)} ${value}`)
    }
    for (const [budget, holds] of Object.entries(budgets)) {
      console.log(`  ${holds ? 'held  ' : 'MISSED'} ${budget}`)
      if (!holds) missed++
    }
  }
  // One suite writes its figures at the top level, `all` one object a suite.
  if (values.json) {
    const written = chosen.length === 1 ? results[chosen[0]!.name] : results
    writeFileSync(values.json, `${JSON.stringify(written, null, 2)}\n`)
  }
  console.log(missed === 0 ? 'bench: every budget held' : `bench: ${missed} budget(s) missed`)
  return missed > 0 && values.strict ? 1 : 0
}

process.exit(await main())
