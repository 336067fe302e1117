import { chmodSync, mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { type Child, startChild, untilReady } from './child.ts'
import { searchPath } from './host.ts'
import { freePort } from './ports.ts'

export interface RedisOptions {
  /** The `redis-server` program, from `ensureRedis`. */
  binary: string
  /** Data, log and process file live here. */
  dir: string
  /** A port to try first; any free one when it is taken or not given. */
  port?: number
  /** `everysec` unless given; `off` keeps nothing. */
  appendfsync?: 'always' | 'everysec' | 'no' | 'off'
  /** Further `redis-server` arguments, e.g. `['--enable-debug-command', 'local']`. */
  args?: string[]
  background?: boolean
}

export interface Redis extends Child {
  url: string
  port: number
  dir: string
}

/** Sends one inline command and gives back the raw reply; undefined when nobody answers. */
async function ask(port: number, command: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    let reply = ''
    const give = (value: string | undefined) => {
      socket.destroy()
      resolve(value)
    }
    socket.setTimeout(1_000, () => give(undefined))
    socket.setEncoding('utf8')
    socket.once('error', () => give(undefined))
    socket.once('close', () => give(undefined))
    socket.once('connect', () => socket.write(`${command}\r\n`))
    socket.on('data', (text: string) => {
      reply += text
      // A bulk string ends with an empty line; a simple string or an error is one line.
      if (reply.endsWith(reply.startsWith('$') ? '\r\n\r\n' : '\r\n')) give(reply)
    })
  })
}

/** The argument list: durable enough for a stream (append-only file), and never evicting. */
function argumentsFor(options: RedisOptions, port: number): string[] {
  const fsync = options.appendfsync ?? 'everysec'
  const persistence =
    fsync === 'off' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', fsync]
  return [
    ...['--port', String(port), '--bind', '127.0.0.1', '--protected-mode', 'yes'],
    ...['--dir', options.dir, '--daemonize', 'no', '--save', '', '--maxmemory-policy', 'noeviction'],
    ...persistence,
    ...(options.args ?? []),
  ]
}

/**
 * Starts a Redis server of our own on 127.0.0.1 and waits until it answers and has loaded its data.
 * @throws when it doesn't start, with the end of its log.
 */
export async function startRedis(options: RedisOptions): Promise<Redis> {
  mkdirSync(options.dir, { recursive: true })
  chmodSync(options.dir, 0o700)
  for (let attempt = 1; ; attempt++) {
    // The kernel gives another port each time, so a port lost to a neighbour costs one more try.
    const port = attempt === 1 && options.port !== undefined ? options.port : await freePort()
    const child = await startChild({
      name: 'redis',
      command: options.binary,
      args: argumentsFor(options, port),
      env: { PATH: searchPath().join(':'), LC_ALL: 'C', TZ: 'UTC' },
      dir: options.dir,
      background: options.background ?? false,
    })
    try {
      await untilReady(child, () => isServing(port, child.pid), 30_000)
      return { ...child, url: `redis://127.0.0.1:${port}`, port, dir: options.dir }
    } catch (error) {
      await child.kill()
      const clash = /Address already in use|Could not create server TCP listening socket/.test(child.tail())
      if (!clash || attempt === 5) throw error
    }
  }
}

/** Whether the server on this port is that process and has finished loading. */
async function isServing(port: number, pid: number): Promise<boolean> {
  const server = await ask(port, 'INFO server')
  if (server === undefined || !server.includes(`\r\nprocess_id:${pid}\r\n`)) return false
  return (await ask(port, 'PING'))?.startsWith('+PONG') === true
}
