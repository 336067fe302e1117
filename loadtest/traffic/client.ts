import { connect, type Socket } from 'node:net'

/** A reply as a load generator needs it: no header objects, no streams. */
export interface Reply {
  status: number
  /** Header block, as it came. */
  head: string
  body: string
}

interface Waiting {
  request: Buffer
  resolve(reply: Reply): void
  reject(error: Error): void
}

/**
 * HTTP/1.1 over a fixed number of kept-alive connections, one request at a time on each. Written for load: a request
 * is one buffer, a reply one small object, so that the generator takes as little as possible of the machine that it
 * shares with what it measures. A request whose connection breaks fails; it is not repeated.
 */
export class HttpClient {
  readonly #host: string
  readonly #port: number
  readonly #idle: Connection[] = []
  readonly #queue: Waiting[] = []
  readonly #all = new Set<Connection>()
  readonly #most: number
  #closed = false

  constructor(url: string, connections: number) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
    this.#most = connections
  }

  /** Requests that wait for a free connection. */
  get queued(): number {
    return this.#queue.length
  }

  send(request: Buffer): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const waiting = { request, resolve, reject }
      const connection = this.#idle.pop() ?? this.#open()
      if (connection) connection.start(waiting)
      else this.#queue.push(waiting)
    })
  }

  /** Encodes a request once; `path` and header values are taken as they are. */
  encode(method: string, path: string, headers: Record<string, string> = {}, body = ''): Buffer {
    let text = `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}:${this.#port}\r\n`
    for (const name in headers) text += `${name}: ${headers[name]}\r\n`
    if (body !== '' || method === 'POST') text += `Content-Length: ${Buffer.byteLength(body)}\r\n`
    return Buffer.from(`${text}\r\n${body}`)
  }

  close(): void {
    this.#closed = true
    for (const connection of this.#all) connection.destroy()
  }

  #open(): Connection | undefined {
    if (this.#all.size >= this.#most) return undefined
    const connection = new Connection(connect(this.#port, this.#host), {
      free: () => {
        const next = this.#queue.shift()
        if (next) connection.start(next)
        else this.#idle.push(connection)
      },
      gone: () => {
        this.#all.delete(connection)
        const at = this.#idle.indexOf(connection)
        if (at >= 0) this.#idle.splice(at, 1)
        const next = this.#closed ? undefined : this.#queue.shift()
        if (next) this.#open()?.start(next)
      },
    })
    this.#all.add(connection)
    return connection
  }
}

class Connection {
  readonly #socket: Socket
  readonly #events: { free(): void; gone(): void }
  #current: Waiting | undefined
  #received: Buffer = Buffer.alloc(0)

  constructor(socket: Socket, events: { free(): void; gone(): void }) {
    this.#socket = socket
    this.#events = events
    socket.setNoDelay(true)
    socket.on('data', (chunk: Buffer) => this.#take(chunk))
    socket.on('error', () => {})
    socket.on('close', () => {
      const current = this.#current
      this.#current = undefined
      events.gone()
      current?.reject(new Error('connection closed'))
    })
  }

  start(waiting: Waiting): void {
    this.#current = waiting
    this.#socket.write(waiting.request)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #take(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    const reply = parseReply(this.#received)
    if (reply === undefined || this.#current === undefined) return
    this.#received = Buffer.alloc(0)
    const { resolve } = this.#current
    this.#current = undefined
    if (/\r\nconnection: close/i.test(reply.head)) this.#socket.end()
    else this.#events.free()
    resolve(reply)
  }
}

/** The whole reply, or undefined while a part is missing. Content-Length or chunked. */
export function parseReply(data: Buffer): Reply | undefined {
  const end = data.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const head = data.toString('latin1', 0, end)
  const status = Number(head.slice(9, 12))
  const bodyAt = end + 4
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)
  if (length) {
    const bytes = Number(length[1])
    if (data.length < bodyAt + bytes) return undefined
    return { status, head, body: data.toString('utf8', bodyAt, bodyAt + bytes) }
  }
  if (/\r\ntransfer-encoding: *chunked/i.test(head)) {
    const body = parseChunks(data, bodyAt)
    return body === undefined ? undefined : { status, head, body }
  }
  return { status, head, body: '' }
}

function parseChunks(data: Buffer, from: number): string | undefined {
  const parts: Buffer[] = []
  let at = from
  for (;;) {
    const line = data.indexOf('\r\n', at)
    if (line < 0) return undefined
    const bytes = Number.parseInt(data.toString('latin1', at, line), 16)
    const next = line + 2 + bytes + 2
    if (data.length < next) return undefined
    if (bytes === 0) return Buffer.concat(parts).toString('utf8')
    parts.push(data.subarray(line + 2, line + 2 + bytes))
    at = next
  }
}
