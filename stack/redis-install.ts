import { chmodSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProgram } from './host.ts'
import { runCommand } from './run-command.ts'

const HOW_TO =
  'Install Redis 7 or newer (Debian, Ubuntu: apt install redis-server; Fedora: dnf install redis; macOS: brew install redis) or put redis-server on the PATH, or give REDIS_URL, and try again.'

export interface EnsureRedisOptions {
  /** A folder of ours where an unpacked Redis is kept. */
  home: string
  /** Where to look for an installed one; PATH and the usual folders unless given. */
  folders?: string[]
  /** Where to look for package managers; likewise. */
  managers?: string[]
  progress?: (line: string) => void
}

/**
 * Gives the path of a `redis-server`: an installed one, else one fetched through the system's package manager.
 *
 * On Debian and Ubuntu the packages are downloaded by apt and unpacked into `home` instead of being installed:
 * that needs no root, and no Redis service appears on port 6379, neither now nor at the next boot.
 * @throws when there is none and none can be fetched, with what to do.
 */
export async function ensureRedis(options: EnsureRedisOptions): Promise<string> {
  const installed = findProgram(['redis-server', 'valkey-server'], options.folders)
  if (installed) return installed
  const unpacked = join(options.home, 'bin', 'redis-server')
  if (existsSync(unpacked)) return unpacked
  const apt = findProgram(['apt-get'], options.managers)
  const brew = findProgram(['brew'], options.managers)
  if (apt && findProgram(['dpkg-deb'], options.managers)) {
    options.progress?.('Fetching Redis through apt')
    await unpackFromApt(apt, options.home)
    return unpacked
  }
  if (brew && process.getuid?.() !== 0) {
    options.progress?.('Installing Redis through brew')
    const result = await runCommand(brew, ['install', 'redis'])
    const program = findProgram(['redis-server'])
    if (program) return program
    throw new Error(`brew install redis failed (${result.code}): ${lastLine(result.output)} ${HOW_TO}`)
  }
  throw new Error(`There is no redis-server here, and no package manager that could bring one. ${HOW_TO}`)
}

/** apt told to keep its lists and archives with us, so that it neither needs root nor takes the system's lock. */
function aptOptions(work: string, user: string): string[] {
  return [
    ...['-o', `Dir::State::lists=${work}/lists`, '-o', `Dir::Cache=${work}/cache`],
    ...['-o', 'Debug::NoLocking=1', '-o', `APT::Sandbox::User=${user}`, '-o', 'Acquire::Retries=3', '-q'],
  ]
}

async function unpackFromApt(apt: string, home: string): Promise<void> {
  const work = `${home}.new-${process.pid}`
  mkdirSync(join(work, 'lists', 'partial'), { recursive: true })
  const archives = join(work, 'cache', 'archives')
  mkdirSync(join(archives, 'partial'), { recursive: true })
  try {
    const user = (await runCommand('id', ['-un'])).stdout.trim()
    const common = aptOptions(work, user)
    await must(apt, [...common, 'update'])
    // --reinstall: wanted even where the packages count as installed but the program can't be found.
    const wanted = ['redis-server', 'redis-tools']
    await must(apt, [...common, '-y', '--no-install-recommends', '--reinstall', '-d', 'install', ...wanted])
    const tree = join(work, 'tree')
    for (const file of readdirSync(archives).filter((name) => name.endsWith('.deb')))
      await must('dpkg-deb', ['-x', join(archives, file), tree])
    writeWrapper(work)
    for (const part of ['lists', 'cache']) rmSync(join(work, part), { recursive: true, force: true })
    moveInto(work, home)
  } catch (error) {
    throw new Error(`Redis could not be fetched: ${(error as Error).message} ${HOW_TO}`)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  const version = await runCommand(join(home, 'bin', 'redis-server'), ['--version'])
  if (version.code === 0) return
  rmSync(home, { recursive: true, force: true })
  throw new Error(`The Redis that was fetched does not run: ${lastLine(version.output)} ${HOW_TO}`)
}

/** Puts the finished folder in its place; another start that was quicker has put the same there. */
function moveInto(work: string, home: string): void {
  try {
    rmSync(home, { recursive: true, force: true })
    renameSync(work, home)
  } catch (error) {
    if (!existsSync(join(home, 'bin', 'redis-server'))) throw error
  }
}

/** A start script beside the unpacked tree, since the program must find the libraries unpacked with it. */
function writeWrapper(work: string): void {
  const lib = join(work, 'tree', 'usr', 'lib')
  const folders = existsSync(lib) ? readdirSync(lib) : []
  const libraries = folders.flatMap((name) => [`$root/tree/usr/lib/${name}`, `$root/tree/lib/${name}`])
  mkdirSync(join(work, 'bin'))
  const file = join(work, 'bin', 'redis-server')
  const lines = [
    '#!/bin/sh',
    'root=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)',
    `LD_LIBRARY_PATH="${libraries.join(':')}"`,
    'export LD_LIBRARY_PATH',
    'exec "$root/tree/usr/bin/redis-server" "$@"',
  ]
  writeFileSync(file, `${lines.join('\n')}\n`)
  chmodSync(file, 0o755)
}

async function must(command: string, args: string[]): Promise<void> {
  const result = await runCommand(command, args)
  if (result.code !== 0)
    throw new Error(
      `${command} ${args.slice(-2).join(' ')} failed (${result.code}): ${lastLine(result.output)}.`,
    )
}

/** The line of a program's output that most likely says what went wrong. */
function lastLine(output: string): string {
  const lines = output.trim().split('\n')
  return lines.findLast((line) => /^(E|Err|error)/i.test(line)) ?? lines.at(-1) ?? 'it said nothing'
}
