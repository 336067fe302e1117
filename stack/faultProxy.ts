import { connect, createServer, type Socket } from 'node:net'

/**
 * A TCP proxy in front of one server, for faults of the way to it: connections that are cut, delayed, half open (what
 * was sent arrives, no answer comes back), or cut between a command's arrival and its answer.
 */
export interface FaultProxy {
  port: number
  /** The server's URL, through the proxy. */
  url(of: string): string
  /** Where new connections go from now on; those that stand are cut. */
  redirect(port: number): void
  /** Cuts every connection; new ones are welcome. */
  cut(): void
  /** Resets every connection, and each new one as soon as it is made, until `release`. */
  refuse(): void
  /** Nothing passes in either direction until `release`, and nobody is told. */
  freeze(): void
  /** Answers stay away while requests go on arriving, until `release`. */
  halfOpen(): void
  /** The other half: answers pass, requests stay away until `release`, which lets them arrive late. */
  deafen(): void
  release(): void
  /** Every answer is late by so many ms from now on. */
  delay(ms: number): void
  /**
   * Waits for the next request that matches, on a connection that has sent something like `after` before; it reaches
   * the server, and its answer is held back. When the server has answered, `then` is done, and the connection is cut.
   */
  holdAnswer(request: RegExp, then: () => Promise<void> | void, after?: RegExp): Promise<void>
  close(): Promise<void>
}

interface Trap {
  request: RegExp
  after: RegExp | undefined
  then: () => Promise<void> | void
  done(): void
  failed(error: unknown): void
}

type Mode = 'open' | 'refusing' | 'frozen' | 'half-open' | 'deaf'

/** Which direction passes. */
const passes: Record<Mode, { requests: boolean; answers: boolean }> = {
  open: { requests: true, answers: true },
  refusing: { requests: false, answers: false },
  frozen: { requests: false, answers: false },
  'half-open': { requests: true, answers: false },
  deaf: { requests: false, answers: true },
}

/** What a connection needs to know of its proxy. */
interface Way {
  mode: Mode
  delayMs: number
  trap: Trap | undefined
}

/** One connection through the proxy. */
interface Pair {
  refresh(): void
  end(): void
}

function join(way: Way, client: Socket, server: Socket, ended: (pair: Pair) => void): Pair {
  let caught: Trap | undefined
  let ready = false
  const pair = {
    refresh() {
      const { requests, answers } = passes[way.mode]
      client[requests ? 'resume' : 'pause']()
      server[answers ? 'resume' : 'pause']()
    },
    end() {
      client.destroy()
      server.destroy()
      ended(pair)
    },
  }
  for (const socket of [client, server]) socket.setNoDelay(true).on('error', pair.end).on('close', pair.end)
  client.on('data', (bytes) => {
    const { trap } = way
    const text = trap === undefined ? '' : bytes.toString('latin1')
    if (trap !== undefined && (trap.after === undefined || trap.after.test(text))) ready = true
    if (ready && trap?.request.test(text)) {
      caught = trap
      way.trap = undefined
    }
    server.write(bytes)
  })
  server.on('data', (bytes) => {
    if (caught === undefined) {
      if (way.delayMs === 0) client.write(bytes)
      else setTimeout(() => client.write(bytes), way.delayMs)
      return
    }
    const { then, done, failed } = caught
    server.pause()
    Promise.resolve(then()).then(done, failed).finally(pair.end)
  })
  pair.refresh()
  return pair
}

export async function startFaultProxy(serverPort: number): Promise<FaultProxy> {
  let target = serverPort
  const way: Way = { mode: 'open', delayMs: 0, trap: undefined }
  const pairs = new Map<Pair, Socket>()

  const listener = createServer((client) => {
    if (way.mode === 'refusing') {
      client.on('error', () => undefined).resetAndDestroy()
      return
    }
    const pair = join(way, client, connect(target, '127.0.0.1'), (ended) => pairs.delete(ended))
    pairs.set(pair, client)
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }

  const cut = () => {
    for (const pair of [...pairs.keys()]) pair.end()
  }
  const become = (mode: Mode) => {
    way.mode = mode
    for (const pair of pairs.keys()) pair.refresh()
  }
  return {
    port,
    url(of) {
      const url = new URL(of)
      url.port = String(port)
      return url.href.replace(/\/$/, '')
    },
    redirect(to) {
      target = to
      cut()
    },
    cut,
    refuse() {
      way.mode = 'refusing'
      for (const client of pairs.values()) client.resetAndDestroy()
      cut()
    },
    freeze: () => become('frozen'),
    halfOpen: () => become('half-open'),
    deafen: () => become('deaf'),
    release: () => become('open'),
    delay(ms) {
      way.delayMs = ms
    },
    holdAnswer: (request, then, after) =>
      new Promise<void>((done, failed) => {
        way.trap = { request, after, then, done, failed }
      }),
    async close() {
      cut()
      await new Promise((resolve) => listener.close(resolve))
    },
  }
}
