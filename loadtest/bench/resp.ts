import { connect, type Socket } from 'node:net'

/**
 * The driver that all sides of a Redis bench share: requests encoded beforehand, so many connections, each with so
 * many requests outstanding, replies only counted and checked for errors. It costs so little that Redis is the
 * bottleneck, which its CPU time shows.
 */

/** Encodes one command for the wire. */
export function encodeCommand(parts: readonly string[]): Buffer {
  let text = `*${parts.length}\r\n`
  for (const part of parts) text += `$${Buffer.byteLength(part)}\r\n${part}\r\n`
  return Buffer.from(text)
}

/** Finds the ends of replies in a byte stream, however it is cut. Simple, integer, bulk and flat array replies. */
export class ReplyCounter {
  replies = 0
  errors = 0
  firstError = ''
  #rest: Buffer = Buffer.alloc(0)

  push(chunk: Buffer): void {
    const data = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk
    let at = 0
    while (at < data.length) {
      const end = replyEnd(data, at)
      if (end < 0) break
      if (data[at] === 45) {
        this.errors++
        this.firstError ||= data.toString('utf8', at + 1, Math.min(end - 2, at + 200))
      }
      this.replies++
      at = end
    }
    this.#rest = at < data.length ? data.subarray(at) : Buffer.alloc(0)
  }
}

function replyEnd(data: Buffer, at: number): number {
  const line = data.indexOf('\r\n', at)
  if (line < 0) return -1
  const kind = data[at]
  if (kind === 43 || kind === 45 || kind === 58) return line + 2
  const size = Number(data.toString('latin1', at + 1, line))
  if (kind === 36) {
    if (size < 0) return line + 2
    const end = line + 2 + size + 2
    return end <= data.length ? end : -1
  }
  let next = line + 2
  for (let i = 0; i < size; i++) {
    next = next <= data.length ? replyEnd(data, next) : -1
    if (next < 0) return -1
  }
  return next
}

export interface DriveOptions {
  port: number
  connections: number
  /** Requests outstanding on each connection. */
  depth: number
  /** Commands joined in one buffer of `next`; 1 unless given. */
  repliesPerRequest?: number
  /** Gives the next request, or undefined when there is no more. */
  next(): Buffer | undefined
}

export interface DriveResult {
  requests: number
  seconds: number
  perSecond: number
  errors: number
  firstError: string
}

/** Sends all requests and waits for all replies. */
export async function drive(options: DriveOptions): Promise<DriveResult> {
  const sockets = await Promise.all(Array.from({ length: options.connections }, () => open(options.port)))
  const counters: ReplyCounter[] = []
  const started = performance.now()
  await Promise.all(
    sockets.map(
      (socket) =>
        new Promise<void>((resolve, reject) => {
          const counter = new ReplyCounter()
          counters.push(counter)
          let sent = 0
          let drained = false
          const refill = () => {
            const batch: Buffer[] = []
            while (!drained && sent - counter.replies < options.depth) {
              const request = options.next()
              if (request === undefined) drained = true
              else {
                batch.push(request)
                sent += options.repliesPerRequest ?? 1
              }
            }
            if (batch.length > 0) socket.write(batch.length === 1 ? batch[0]! : Buffer.concat(batch))
            else if (drained && counter.replies === sent) resolve()
          }
          socket.on('data', (chunk: Buffer) => {
            counter.push(chunk)
            // A whole pipeline is sent again once the last one is answered, as clients with pipelining do.
            if (counter.replies === sent || drained) refill()
          })
          socket.on('error', reject)
          socket.on('close', () => reject(new Error('Redis closed the connection')))
          refill()
        }),
    ),
  )
  const seconds = (performance.now() - started) / 1000
  for (const socket of sockets) socket.removeAllListeners('close').destroy()
  const requests = counters.reduce((sum, counter) => sum + counter.replies, 0)
  return {
    requests,
    seconds,
    perSecond: requests / seconds,
    errors: counters.reduce((sum, counter) => sum + counter.errors, 0),
    firstError: counters.find((counter) => counter.errors > 0)?.firstError ?? '',
  }
}

function open(port: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => resolve(socket))
    socket.setNoDelay(true)
    socket.once('error', reject)
  })
}
