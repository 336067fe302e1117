import { connect, type Socket } from 'node:net'

/** What a claim's stream told: its final result, or that it ended without one. */
export type Told = 'claim.delivered' | 'claim.rejected' | 'closed'

/**
 * Follows a claim's event stream (SSE) over a connection of its own until its final result. Written for thousands of
 * them beside a flood: it looks for the event's name and keeps nothing else.
 */
export function followEvents(
  edgeUrl: string,
  path: string,
  address: string,
): { told: Promise<Told>; close(): void } {
  const { hostname, port, host } = new URL(edgeUrl)
  const socket: Socket = connect(Number(port), hostname)
  const told = new Promise<Told>((resolve) => {
    let text = ''
    socket.setEncoding('latin1').setNoDelay(true)
    socket.on('connect', () =>
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\nCF-Connecting-IP: ${address}\r\n\r\n`,
      ),
    )
    socket.on('data', (chunk: string) => {
      text += chunk
      const found = /event: (claim\.(?:delivered|rejected))/.exec(text)
      if (found !== null) {
        resolve(found[1] as Told)
        socket.destroy()
      }
      // A name may be cut in two; the rest of what was read is of no use.
      text = text.slice(-40)
    })
    socket.on('error', () => undefined)
    // The stream begins with the claim's present state: one that is final already is told there and the stream ends.
    socket.on('end', () => resolve('closed'))
    socket.on('close', () => resolve('closed'))
  })
  return { told, close: () => socket.destroy() }
}
