import { connect } from 'node:net'

/** An answer as it came over the wire, for requests that no HTTP client would send. */
export interface RawAnswer {
  /** 0 when the connection was closed without an answer. */
  status: number
  head: string
  body: string
}

/** Sends these very bytes and reads until the other side closes; add `Connection: close` where it should. */
export function sendRaw(url: string, bytes: string): Promise<RawAnswer> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) })
    const parts: Buffer[] = []
    socket.setTimeout(10_000, () => socket.destroy(new Error('no answer')))
    socket.on('data', (part) => parts.push(part))
    socket.on('error', reject)
    socket.on('close', () => {
      const text = Buffer.concat(parts).toString('latin1')
      const end = text.indexOf('\r\n\r\n')
      const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1] ?? 0)
      resolve({ status, head: text.slice(0, end), body: end < 0 ? '' : text.slice(end + 4) })
    })
    socket.write(Buffer.from(bytes, 'latin1'))
  })
}

/** A request with these lines of headers, written as they are. */
export function rawRequest(method: string, target: string, headers: readonly string[], body = ''): string {
  const lines = ['Host: shop.example', 'Connection: close', ...headers]
  return `${method} ${target} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`
}
