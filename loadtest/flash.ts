import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startStack } from '../stack/stack.ts'
import { runFlash } from './flash/run.ts'

const help = `npm run flash -- --users N --quota Q [--json FILE]

A real flash claim through the real path: logins and claim tokens of N users before the opening, N claims over HTTP
through the worker, the arbiter, the log, the core and the database, and then an audit of what stands in Postgres
and Redis by code that shares nothing with the path.

  --users N        distinct users, one claim each (20000)
  --quota Q        coupons (5000)
  --rate R         claims a second; without it, 70 % of what a rehearsal shows
  --connections C  connections of the load generator (128)
  --json FILE      writes the report

Exit code 1 when an invariant is broken or an answer was an error.`

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      users: { type: 'string', default: '20000' },
      quota: { type: 'string', default: '5000' },
      rate: { type: 'string' },
      connections: { type: 'string', default: '128' },
      json: { type: 'string' },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    console.log(help)
    return 0
  }
  const [users, quota, connections] = [values.users, values.quota, values.connections].map(Number) as [
    number,
    number,
    number,
  ]
  const perSecond = values.rate === undefined ? undefined : Number(values.rate)
  if (![users, quota, connections, perSecond ?? 1].every((n) => Number.isInteger(n) && n > 0)) {
    console.error(help)
    return 2
  }
  const progress = (line: string) => {
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}`)
  }
  const say = (line: string) => {
    progress('')
    console.log(line)
  }
  const home = join(import.meta.dirname, '..', '.tidegate')
  const dir = join(home, `flash-${process.pid}`)
  mkdirSync(home, { recursive: true, mode: 0o711 })
  say('flash: starting Postgres, Redis, gateway, core and worker')
  const stack = await startStack({ dir, progress: say })
  try {
    const report = await runFlash(stack, { users, quota, perSecond, connections, say, progress })
    say('')
    for (const [name, value] of Object.entries(report)) {
      console.log(`  ${name.padEnd(20)} ${typeof value === 'object' ? JSON.stringify(value) : value}`)
    }
    if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`)
    const failed = report.violations.length > 0 || report.errors > 0
    console.log(
      failed
        ? `flash: FAILED, ${report.violations.length} invariant(s) broken, ${report.errors} error(s)`
        : `flash: ${report.accepted} of ${report.offered} accepted, all delivered once, every invariant held`,
    )
    return failed ? 1 : 0
  } finally {
    await stack.stop()
    rmSync(dir, { recursive: true, force: true })
  }
}

process.exit(await main())
