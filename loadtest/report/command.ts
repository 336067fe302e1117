import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { parseArgs } from 'node:util'
import { type Abouts, gather, PartError, type PartFiles, readRunRecord } from './data/parts.ts'
import { compactJson, samplesMax, thinRecord } from './data/thin.ts'
import { verdictOf } from './data/verdict.ts'
import { renderReport } from './render.ts'

const help = `npm run loadtest -- report --in RUN.json [parts] [--before EARLIER.json] [--html OUT.html] [--json OUT.json]

Puts the parts of a full run together, and shows them as one HTML file that needs nothing else: no network, no script.

  --in FILE        the record of the scenarios: npm run loadtest -- all --json FILE
  --drills FILE    npm run drill -- all --json FILE
  --sim FILE       npm run sim -- --seeds 1000 --json FILE; may be given twice, with planted bugs in the other
  --bench FILE     npm run bench -- all --json FILE; may be given several times, with a suite in each
  --scale FILE     npm run loadtest -- scale --json FILE
  --peers FILE     npm run loadtest -- peers --json FILE
  --capacity FILE  npm run loadtest -- capacity … --json FILE
  --before FILE    an earlier record (as --json writes it) to compare with
  --html FILE      writes the page
  --json FILE      writes the whole record, its time lines thinned to ${samplesMax} samples

Exit code 1: something in the record failed; the files are written all the same. 2: wrong arguments or files.`

const one = { type: 'string' } as const
const several = { type: 'string', multiple: true } as const

function optionsOf(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    options: {
      in: one,
      drills: one,
      sim: several,
      bench: several,
      scale: one,
      peers: one,
      capacity: one,
      before: one,
      html: one,
      json: one,
      help: { type: 'boolean', short: 'h', default: false },
    },
  }).values
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
  console.log(`wrote ${file}, ${Math.ceil(Buffer.byteLength(text) / 1024).toLocaleString('en-US')} KB`)
}

/** The drills' own words about them. Loaded only where it is needed: it brings the whole stack. */
async function drillAbouts(): Promise<Abouts> {
  const { drills } = await import('../drills/all.ts')
  return new Map(drills.map(({ name, about }) => [name, about]))
}

/** @returns the exit code: the record's own verdict. */
export async function main(args: readonly string[]): Promise<number> {
  let options: ReturnType<typeof optionsOf>
  try {
    options = optionsOf(args)
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${help}`)
    return 2
  }
  if (options.help) {
    console.log(help)
    return 0
  }
  const { in: file, before, html, json, help: _, ...parts } = options
  if (file === undefined || (html === undefined && json === undefined)) {
    console.error(help)
    return 2
  }
  try {
    const abouts = parts.drills === undefined ? undefined : await drillAbouts()
    const record = gather(file, parts satisfies PartFiles, abouts)
    const earlier = before === undefined ? undefined : readRunRecord(before)
    if (json !== undefined) write(json, compactJson(thinRecord(record)))
    if (html !== undefined) write(html, renderReport(record, earlier))
    const verdict = verdictOf(record)
    console.log(`report: ${verdict.line}`)
    return verdict.passed ? 0 : 1
  } catch (error) {
    if (!(error instanceof PartError)) throw error
    console.error(error.message)
    return 2
  }
}
