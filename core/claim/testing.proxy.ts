import { connect, createServer, type Socket } from 'node:net'

/** A way to Postgres that can break at the worst moment. */
export interface BreakableWay {
  /** The given database, through the proxy. */
  url: string
  /**
   * Breaks the next connection that commits: the COMMIT reaches the server, which obeys, and its answer never comes
   * back. Resolves when that has happened.
   */
  loseCommitAnswer(): Promise<void>
  close(): Promise<void>
}

export async function openBreakableWay(databaseUrl: string): Promise<BreakableWay> {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  let armed: (() => void) | undefined

  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname)
    let cut: (() => void) | undefined
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => undefined).on('close', () => sockets.delete(socket))
    }
    client.on('data', (bytes) => {
      if (armed !== undefined && /\bcommit\b/i.test(bytes.toString('latin1'))) {
        cut = armed
        armed = undefined
      }
      upstream.write(bytes)
    })
    upstream.on('data', (bytes) => {
      if (cut === undefined) return void client.write(bytes)
      client.destroy()
      upstream.destroy()
      cut()
    })
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = new URL(databaseUrl)
  url.port = String((server.address() as { port: number }).port)
  return {
    url: url.href,
    loseCommitAnswer: () =>
      new Promise((resolve) => {
        armed = resolve
      }),
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
