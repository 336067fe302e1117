import { connect, createServer, type Socket } from 'node:net'

/**
 * Several servers behind one address, as a load balancer puts them: each connection goes to the next server in turn,
 * past those that refuse it.
 */
export interface Balancer {
  url: string
  close(): Promise<void>
}

export async function startBalancer(urls: readonly string[]): Promise<Balancer> {
  const servers = urls.map((url) => Number(new URL(url).port))
  const sockets = new Set<Socket>()
  let turn = 0

  function serve(client: Socket, from: number, tries: number): void {
    const server = connect(servers[from % servers.length]!, '127.0.0.1')
    server.setNoDelay(true)
    server.once('connect', () => {
      server.off('error', refused)
      server.on('error', () => client.destroy())
      sockets.add(server)
      client.pipe(server).pipe(client)
      client.once('close', () => server.destroy())
      server.once('close', () => {
        sockets.delete(server)
        client.destroy()
      })
    })
    const refused = () => {
      if (tries > 1) serve(client, from + 1, tries - 1)
      else client.destroy()
    }
    server.once('error', refused)
  }

  const listener = createServer({ pauseOnConnect: false }, (client) => {
    sockets.add(client)
    client.setNoDelay(true)
    client.on('error', () => client.destroy())
    client.once('close', () => sockets.delete(client))
    serve(client, turn++, servers.length)
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as { port: number }
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => listener.close(resolve))
    },
  }
}
