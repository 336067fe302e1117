import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type Child, startChild, untilReady } from './child.ts'
import { freePort } from './ports.ts'
import { type PostgresHome, postgresHome } from './postgres-home.ts'
import { commandOf, endProcess, identify, until } from './process.ts'
import { runCommand } from './run-command.ts'

export interface PostgresOptions {
  /** Data, password and log live here (or where this folder links to). */
  dir: string
  /** A port to try first; any free one when it is taken or not given. */
  port?: number
  /** Server settings over ours, e.g. `{ fsync: 'off' }`. */
  settings?: Record<string, string>
  background?: boolean
}

export interface Postgres extends Child {
  /** Superuser URL of the database `postgres`. */
  url: string
  port: number
  /** Where the data really are. */
  dir: string
}

const SETTINGS: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  // No socket: the password rule then holds for every way in, and no path can be too long for one.
  unix_socket_directories: '',
  shared_buffers: '256MB',
  max_connections: '200',
  max_wal_size: '2GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  lc_messages: 'C',
  fsync: 'on',
}

const CHILD_ENV = { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }

/**
 * Starts a PostgreSQL of our own on 127.0.0.1, making its data folder first if there is none, and waits until
 * it accepts connections. A server that an earlier run left behind on the same folder is stopped first.
 * @throws when it doesn't start, with the end of its log.
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const home = await postgresHome(options.dir)
  const data = join(home.dir, 'data')
  if (!existsSync(join(data, 'PG_VERSION'))) await initialise(home, data)
  await stopStale(data)
  for (let attempt = 1; ; attempt++) {
    const port = attempt === 1 && options.port !== undefined ? options.port : await freePort()
    const settings = Object.entries({ ...SETTINGS, ...options.settings, port: String(port) })
    const child = await startChild({
      name: 'postgres',
      command: join(home.native, 'bin', 'postgres'),
      args: ['-D', data, ...settings.flatMap(([key, value]) => ['-c', `${key}=${value}`])],
      env: CHILD_ENV,
      dir: home.dir,
      cwd: '/',
      // Fast shutdown: the polite signal of other programs (SIGTERM) would wait for every client to leave.
      polite: 'SIGINT',
      background: options.background ?? false,
      ...home.owner,
    })
    try {
      await untilReady(child, () => isReady(data, child.pid), 60_000)
      const password = encodeURIComponent(readFileSync(join(home.dir, 'password'), 'utf8').trim())
      const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
      return { ...child, url, port, dir: home.dir }
    } catch (error) {
      await child.kill()
      if (!/could not bind IPv4 address|Address already in use/.test(child.tail()) || attempt === 5)
        throw error
    }
  }
}

/** The server writes its state into the last line of its own process file. */
function isReady(data: string, pid: number): boolean {
  try {
    const lines = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')
    return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
  } catch {
    return false
  }
}

/** Makes the data folder beside its place and moves it in whole, so that a start cut short leaves no half of one. */
async function initialise(home: PostgresHome, data: string): Promise<void> {
  const password = join(home.dir, 'password')
  writeFileSync(password, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  chmodSync(password, 0o600)
  if (home.owner) chownSync(password, home.owner.uid, home.owner.gid)
  const making = `${data}.new`
  rmSync(making, { recursive: true, force: true })
  rmSync(data, { recursive: true, force: true })
  const result = await runCommand(
    join(home.native, 'bin', 'initdb'),
    [
      ...['-D', making, '--username=postgres', `--pwfile=${password}`, '--auth=scram-sha-256'],
      // The builtin provider sorts and folds the same on every machine, whatever locales are installed.
      ...['--encoding=UTF8', '--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
      '--no-instructions',
    ],
    { env: CHILD_ENV, timeoutMs: 120_000, ...home.owner },
  )
  if (result.code !== 0)
    throw new Error(
      `PostgreSQL could not make its data folder ${making} (${result.code}):\n${result.output.trim()}`,
    )
  renameSync(making, data)
}

/**
 * Stops a server that still runs on this data folder: after a kill -9 of its supervisor nobody else will.
 * The process file names a number that may belong to another program by now, so what runs under it is checked.
 */
async function stopStale(data: string): Promise<void> {
  const file = join(data, 'postmaster.pid')
  if (!existsSync(file)) return
  const [first, folder] = readFileSync(file, 'utf8').split('\n')
  const id = identify(Number(first))
  if (id && folder === data && commandOf(id.pid).includes(`-D ${data} `))
    await endProcess(id, 'SIGINT', 15_000)
  await dropStaleFile(file, data)
}

/**
 * PostgreSQL believes a process file whose number is in use, also by a zombie (in a container often nobody
 * collects a killed server) or by another program of the same user. We know better by now, and remove the file;
 * but only when nothing works on the data any more, since the file is also what would stop a second server.
 */
async function dropStaleFile(file: string, data: string): Promise<void> {
  if (process.platform !== 'linux' || !existsSync(file)) return
  await until(() => !isInUse(data), `processes of a killed PostgreSQL still work on ${data}`, 15_000)
  rmSync(file, { force: true })
}

/** Whether any process works in this folder: every PostgreSQL process has its data folder as working directory. */
function isInUse(data: string): boolean {
  return readdirSync('/proc').some((name) => {
    if (!/^\d+$/.test(name)) return false
    try {
      return readlinkSync(`/proc/${name}/cwd`) === data
    } catch {
      // Gone meanwhile, a zombie, or another user's: none of them is a server of ours.
      return false
    }
  })
}
