import type { Server } from 'node:http'
import { serve } from '@hono/node-server'
import type { CoreApp } from './types.ts'

export interface HttpServer {
  /** `http://host:port`. */
  url: string
  /** Takes no more connections, waits for answers under way, and cuts what is left after the given time. */
  stop(graceMs: number): Promise<void>
}

/** @throws when the address can't be had. */
export async function startHttp(app: CoreApp, host: string, port: number): Promise<HttpServer> {
  let server!: Server
  const bound = await new Promise<number>((resolve, reject) => {
    server = serve({ fetch: app.fetch, hostname: host, port }, (info) => {
      server.removeListener('error', reject)
      resolve(info.port)
    }) as Server
    server.once('error', reject)
  })
  // Longer than any proxy in front keeps its idle connections, so that none is closed under a request.
  server.keepAliveTimeout = 75_000
  server.headersTimeout = 80_000
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${bound}`,
    async stop(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      // Also those that become idle while others still answer.
      const sweep = setInterval(() => server.closeIdleConnections(), 50)
      const cut = setTimeout(() => server.closeAllConnections(), graceMs)
      await closed
      clearTimeout(cut)
      clearInterval(sweep)
    },
  }
}
