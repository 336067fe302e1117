import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runCommand } from './run-command.ts'

/** `npm run check`: formatting, lint, layering, types and generated code, without starting anything. */

interface Step {
  name: string
  args: [string, ...string[]]
  /** A step whose subject doesn't exist has nothing to check. */
  needs: string
}

export interface CheckResult {
  passed: number
  failed: number
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const BIN = `${ROOT}node_modules/.bin`

const STEPS: Step[] = [
  { name: 'format, lint, layering', args: [`${BIN}/biome`, 'check'], needs: 'biome.json' },
  { name: 'types: core, lua, stack, tests', args: [`${BIN}/tsc`, '-p', '.'], needs: 'tsconfig.json' },
  { name: 'types: edge', args: [`${BIN}/tsc`, '-p', 'edge'], needs: 'edge/tsconfig.json' },
  {
    name: 'types: tests of the edge',
    args: [`${BIN}/tsc`, '-p', 'edge/tsconfig.test.json'],
    needs: 'edge/tsconfig.test.json',
  },
  { name: 'types: site', args: [`${BIN}/tsc`, '-p', 'edge/site'], needs: 'edge/site/tsconfig.json' },
  { name: 'types: console', args: [`${BIN}/tsc`, '-p', 'core/console'], needs: 'core/console/tsconfig.json' },
  {
    name: 'generated Lua module',
    args: [process.execPath, 'lua/build.ts', '--check'],
    needs: 'lua/build.ts',
  },
]

async function runStep(step: Step, say: (line: string) => void): Promise<boolean> {
  const began = performance.now()
  const [command, ...args] = step.args
  const result = await runCommand(command, args, { cwd: ROOT, timeoutMs: 120_000 })
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  const ok = result.code === 0
  say(`${ok ? 'ok    ' : 'FAILED'} ${step.name} (${seconds} s)`)
  if (!ok) say(result.output.trimEnd())
  return ok
}

/** Runs every step, side by side; each says one line, and what it complains about when it fails. */
export async function check(say: (line: string) => void): Promise<CheckResult> {
  const steps = STEPS.filter((step) => existsSync(`${ROOT}${step.needs}`))
  const results = await Promise.all(steps.map((step) => runStep(step, say)))
  const passed = results.filter(Boolean).length
  return { passed, failed: results.length - passed }
}

if (import.meta.main) {
  const began = performance.now()
  const { passed, failed } = await check(console.log)
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  console.log(
    failed === 0
      ? `check passed: ${passed} steps in ${seconds} s`
      : `check failed: ${failed} of ${passed + failed} steps`,
  )
  process.exitCode = failed === 0 ? 0 : 1
}
