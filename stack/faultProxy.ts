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
  /** Nothing passes in either direction until `release`, and nobody is told. */
  freeze(): void
  /** Answers stay away while requests go on arriving, until `release`. */
  halfOpen(): void
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

type Mode = 'open' | 'frozen' | 'half-open'

export async function startFaultProxy(serverPort: number): Promise<FaultProxy> {
  let target = serverPort
  let mode: Mode = 'open'
  let delayMs = 0
  let trap: Trap | undefined
  const pairs = new Set<{ client: Socket; server: Socket; refresh(): void; end(): void }>()

  const listener = createServer((client) => {
    const server = connect(target, '127.0.0.1')
    let caught: Trap | undefined
    let ready = false
    const pair = {
      client,
      server,
      refresh() {
        if (mode === 'frozen') client.pause()
        else client.resume()
        if (mode === 'open') server.resume()
        else server.pause()
      },
      end() {
        client.destroy()
        server.destroy()
        pairs.delete(pair)
      },
    }
    pairs.add(pair)
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', pair.end).on('close', pair.end)
    client.on('data', (bytes) => {
      const text = trap === undefined ? '' : bytes.toString('latin1')
      if (trap !== undefined && (trap.after === undefined || trap.after.test(text))) ready = true
      if (ready && trap?.request.test(text)) {
        caught = trap
        trap = undefined
      }
      server.write(bytes)
    })
    server.on('data', (bytes) => {
      if (caught === undefined) {
        if (delayMs === 0) client.write(bytes)
        else setTimeout(() => client.write(bytes), delayMs)
        return
      }
      const { then, done, failed } = caught
      server.pause()
      Promise.resolve(then()).then(done, failed).finally(pair.end)
    })
    pair.refresh()
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }

  const cut = () => {
    for (const pair of [...pairs]) pair.end()
  }
  const become = (next: Mode) => {
    mode = next
    for (const pair of pairs) pair.refresh()
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
    freeze: () => become('frozen'),
    halfOpen: () => become('half-open'),
    release: () => become('open'),
    delay(ms) {
      delayMs = ms
    },
    holdAnswer: (request, then, after) =>
      new Promise<void>((done, failed) => {
        trap = { request, after, then, done, failed }
      }),
    async close() {
      cut()
      await new Promise((resolve) => listener.close(resolve))
    },
  }
}
