// Runs a TypeScript file of this repository with the Node 24 that its packages bring, installing the packages
// first where they are missing or out of date. Plain JavaScript for Node 20 without any package:
// everything else may count on the packages, this file may not.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
const node24 = join(modules, 'node', 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
const stamp = join(modules, '.tidegate-installed')
const lockStaleMs = 15_000

/** What the installed packages were made from. */
function wanted() {
  const hash = createHash('sha256')
  for (const file of ['package-lock.json', 'package.json']) {
    // Only what decides about packages: a changed script must not cost an installation.
    const content = JSON.parse(readFileSync(join(root, file), 'utf8'))
    delete content.scripts
    hash.update(JSON.stringify(content))
  }
  return hash.digest('hex')
}

function installed() {
  if (!existsSync(node24)) return false
  if (existsSync(stamp)) return readFileSync(stamp, 'utf8') === wanted()
  // Installed by hand with npm: npm writes its own list last, so a newer one than the lock file is complete.
  const own = join(modules, '.package-lock.json')
  if (!existsSync(own) || statSync(own).mtimeMs < statSync(join(root, 'package-lock.json')).mtimeMs)
    return false
  writeFileSync(stamp, wanted())
  return true
}

/** Runs `npm ci`, quietly; its output is shown only when it fails. */
async function install() {
  process.stderr.write('Installing packages and Node 24 (once; about a minute)\n')
  const npm = process.env.npm_execpath
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', '--include=dev']
  const [command, all] = npm && /\.c?js$/.test(npm) ? [process.execPath, [npm, ...args]] : ['npm', args]
  const { npm_config_ignore_scripts: _, ...env } = process.env
  const child = spawn(command, all, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  if (code !== 0) throw new Error(`npm ci failed (${code}) in ${root}:\n${output.trim()}`)
  if (!existsSync(node24))
    throw new Error(
      'npm ci brought no Node 24: its install scripts did not run. Allow them (npm config delete ignore-scripts) and try again.',
    )
  writeFileSync(stamp, wanted())
}

/**
 * Installs once when several starts come together: one holds the lock file and touches it every second, the
 * others wait. A lock that nobody touches any more was left by a killed start and is taken over.
 */
async function ensureInstalled() {
  if (installed()) return
  mkdirSync(join(root, '.tidegate'), { recursive: true })
  const lock = join(root, '.tidegate', 'install.lock')
  for (;;) {
    try {
      closeSync(openSync(lock, 'wx'))
      break
    } catch (error) {
      if (error.code !== 'EEXIST') throw error
    }
    const held = statSync(lock, { throwIfNoEntry: false })
    if (held && Date.now() - held.mtimeMs > lockStaleMs) rmSync(lock, { force: true })
    else await pause(200)
    if (installed() && !existsSync(lock)) return
  }
  const beat = setInterval(() => utimesSync(lock, new Date(), new Date()), 1_000)
  const drop = () => rmSync(lock, { force: true })
  process.once('exit', drop)
  try {
    if (!installed()) await install()
  } finally {
    clearInterval(beat)
    drop()
  }
}

/** Whether a process runs; a zombie doesn't. */
function alive(pid) {
  try {
    process.kill(pid, 0)
    if (process.platform !== 'linux') return true
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat[stat.lastIndexOf(')') + 2] !== 'Z'
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** Under npm: the processes above us up to npm (on Linux a shell may stand between). */
function processesAbove() {
  if (process.env.npm_lifecycle_event === undefined) return []
  const above = [process.ppid]
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8')
    if (!/\((npm|node)/.test(stat)) above.push(Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
  } catch {
    // No /proc: the direct parent is what can be watched.
  }
  return above.filter((pid) => pid > 1)
}

async function main() {
  const [file, ...args] = process.argv.slice(2)
  if (file === undefined) throw new Error('Usage: node stack/run.mjs <file.ts> [arguments]')
  await ensureInstalled()
  const child = spawn(node24, [join(root, file), ...args], {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      PATH: `${join(modules, '.bin')}:${process.env.PATH ?? ''}`,
      TIDEGATE_PARENT_PID: String(process.pid),
    },
  })
  const forward = (name) => child.kill(name)
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, forward)
  // A killed npm can't tell us: without this the program would run on with nobody to stop it.
  const above = processesAbove()
  if (above.length > 0) setInterval(() => above.every(alive) || child.kill('SIGTERM'), 500).unref()
  child.once('error', (error) => {
    process.stderr.write(`Node 24 (${node24}) can't be started: ${error.message}\n`)
    process.exitCode = 1
  })
  child.once('exit', (code, name) => {
    if (name === null) process.exit(code ?? 1)
    for (const other of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeListener(other, forward)
    process.kill(process.pid, name)
  })
}

main().catch((error) => {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
})
