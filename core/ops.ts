import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { runOps } from './ops/run.ts'

/** `npm run ops -- …`: the operator's CLI. Composition root of its process. */

process.exitCode = await runOps(process.argv.slice(2), {
  env: process.env,
  home: fileURLToPath(new URL('../.tidegate/', import.meta.url)),
  out: (line) => process.stdout.write(`${line}\n`),
  err: (line) => process.stderr.write(`${line}\n`),
  readStdin: () => readFileSync(0, 'utf8'),
})
