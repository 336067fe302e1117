import { globSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fileURLToPath } from 'node:url'
import { type CheckResult, check } from './check.ts'
import { ensureChromium } from './chromium.ts'
import { ensureRedis } from './redis-install.ts'
import { temporaryFolder, testServerUrl } from './testing.ts'

/** `npm test [-- files]`: brings what the tests need, checks, runs them, and ends with one line of counts. */

interface Counts extends CheckResult {
  skipped: number
}

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const TEST_TIMEOUT_MS = 120_000
/** A test file that says nothing for so long hangs outside of its tests. */
const SILENCE_MS = 300_000

/** The test files: those named (files, folders or patterns), or all. */
function selectFiles(selection: string[]): string[] {
  const patterns = selection.length === 0 ? ['**/*.test.ts'] : selection
  const found = patterns.flatMap((pattern) => {
    const path = relative(ROOT, resolve(ROOT, pattern))
    const files = globSync(path.endsWith('.ts') ? path : `${path}/**/*.test.ts`, {
      cwd: ROOT,
      exclude: (name) => name === 'node_modules' || name === '.tidegate' || name === '.git',
    })
    if (files.length === 0) throw new Error(`No test file matches ${pattern}`)
    return files
  })
  return [...new Set(found)].sort().map((file) => join(ROOT, file))
}

/** Brings the programs and the PostgreSQL server, and names them to the test files in the environment. */
async function prepare(files: string[], ci: boolean): Promise<string[]> {
  const problems: string[] = []
  const home = join(ROOT, '.tidegate', 'redis-program')
  process.env['TEST_REDIS_BIN'] ??= await ensureRedis({ home, progress: console.log })
  process.env['TEST_DATABASE_URL'] ??= await testServerUrl()
  const browser = files.some((file) =>
    /TEST_CHROMIUM_BIN|stack\/browser\.ts/.test(readFileSync(file, 'utf8')),
  )
  if (browser && !process.env['TEST_CHROMIUM_BIN']) {
    try {
      process.env['TEST_CHROMIUM_BIN'] = await ensureChromium(console.log)
    } catch (error) {
      console.log(`${(error as Error).message} The browser tests are skipped.`)
      // Where nobody reads along, tests that can't run must not look like tests that passed.
      if (ci) problems.push('no Chromium')
    }
  }
  return problems
}

/** Whatever neither passed nor was skipped has failed: cancelled tests (a time-out) too. */
function countsOf(all: { tests: number; passed: number; skipped: number; todo: number }): Counts {
  const skipped = all.skipped + all.todo
  return { passed: all.passed, failed: all.tests - all.passed - skipped, skipped }
}

async function runFiles(files: string[]): Promise<Counts> {
  const abort = new AbortController()
  const open = new Set(files)
  let counts: Counts | undefined
  const hung = () => {
    console.log(
      `No sign of life for ${SILENCE_MS / 1000} s from: ${[...open].map((f) => relative(ROOT, f)).join(', ')}`,
    )
    abort.abort()
  }
  let timer = setTimeout(hung, SILENCE_MS)
  // forceExit: a handle that a test left open would otherwise keep the whole run waiting after its last test.
  const stream = run({
    files,
    concurrency: 2,
    timeout: TEST_TIMEOUT_MS,
    forceExit: true,
    signal: abort.signal,
  })
  stream.on('test:complete', () => {
    clearTimeout(timer)
    timer = setTimeout(hung, SILENCE_MS)
  })
  stream.on('test:summary', ({ counts: all, file }) => {
    if (file !== undefined) open.delete(file)
    else counts = countsOf(all)
  })
  const report = stream.compose(spec)
  report.pipe(process.stdout)
  await new Promise<void>((done) => report.once('end', done))
  clearTimeout(timer)
  const lost = abort.signal.aborted ? open.size : 0
  return counts
    ? { ...counts, failed: counts.failed + lost }
    : { passed: 0, failed: Math.max(1, lost), skipped: 0 }
}

async function main(selection: string[]): Promise<Counts> {
  // Left-over temporary files of whatever the tests start stay in one folder that goes with us.
  process.env['TMPDIR'] = temporaryFolder('test')
  const files = selectFiles(selection)
  const problems = await prepare(files, process.env['CI'] === 'true')
  const checked = selection.length === 0 ? await check(console.log) : { passed: 0, failed: 0 }
  const tested = await runFiles(files)
  return {
    passed: checked.passed + tested.passed,
    failed: checked.failed + tested.failed + problems.length,
    skipped: tested.skipped,
  }
}

let counts: Counts
try {
  counts = await main(process.argv.slice(2))
} catch (error) {
  console.log((error as Error).message)
  counts = { passed: 0, failed: 1, skipped: 0 }
}
const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : ''
const line = `${counts.passed} passed, ${counts.failed} failed${skipped}\n`
// Exit only when the line is out: our standard output may be a pipe.
process.stdout.write(line, () => process.exit(counts.failed > 0 || counts.passed === 0 ? 1 : 0))
