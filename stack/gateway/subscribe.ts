import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { RedisAddress } from './redis-link.ts'
import { errorText, isError, replyValue } from './reply.ts'
import { type Command, CommandWriter, FrameReader, PLUS } from './resp.ts'

const HEARTBEAT_MS = 15_000
/** Longest wait for Redis to confirm a subscription. */
const CONFIRM_MS = 5000
/** What a reader may be behind before it is cut off, as Redis itself does with slow subscribers. */
const BACKLOG_MAX_BYTES = 1024 * 1024

export interface Subscription {
  /** `SUBSCRIBE` or `PSUBSCRIBE`. */
  kind: 'SUBSCRIBE' | 'PSUBSCRIBE'
  /** Channels or patterns. */
  names: string[]
}

/** Told when the stream could not begin; nothing was written to the response then. */
export type Refuse = (status: number, message: string) => void

/**
 * Streams a subscription as server-sent events, one connection to Redis a stream, until either side leaves.
 * Events are Redis's own messages joined by commas, such as `data: message,<channel>,<payload>`.
 */
export function streamSubscription(
  address: RedisAddress,
  subscription: Subscription,
  response: ServerResponse,
  refuse: Refuse,
): void {
  const socket = connect({ host: address.host, port: address.port, noDelay: true, keepAlive: true })
  const reader = new FrameReader()
  let begun = false

  const deadline = setTimeout(() => socket.destroy(), CONFIRM_MS)
  const begin = () => {
    begun = true
    clearTimeout(deadline)
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  }
  const deliver = (frame: Buffer) => {
    if (isError(frame)) {
      if (!begun) refuse(400, errorText(frame))
      socket.destroy()
      return
    }
    if (frame[0] === PLUS) return
    if (!begun) begin()
    response.write(event((replyValue(frame) as unknown[]).join(',')))
    if (response.writableLength > BACKLOG_MAX_BYTES) socket.destroy()
  }

  const heartbeat = setInterval(() => {
    if (begun) response.write(': keep-alive\n\n')
  }, HEARTBEAT_MS)
  socket.on('data', (chunk: Buffer) => {
    try {
      for (const frame of reader.push(chunk)) if (!socket.destroyed) deliver(frame)
    } catch {
      // Not RESP2, so nothing more can be understood; the close event tells the caller.
      socket.destroy()
    }
  })
  // The close event that follows ends the stream; the caller sees that and subscribes again.
  socket.on('error', () => undefined)
  socket.on('close', () => {
    clearInterval(heartbeat)
    clearTimeout(deadline)
    if (!begun && !response.headersSent) refuse(503, UNREACHABLE)
    response.end()
  })
  response.on('close', () => socket.destroy())
  socket.write(opening(address, subscription))
}

const UNREACHABLE = 'UNAVAILABLE Redis is not reachable: subscribe again in a second'

function opening(address: RedisAddress, { kind, names }: Subscription): Buffer {
  const writer = new CommandWriter()
  const { username, password } = address
  if (password !== undefined) writer.write(username ? ['AUTH', username, password] : ['AUTH', password])
  const command: Command = [kind, ...names]
  writer.write(command)
  return writer.take()
}

/** A payload of several lines becomes several `data:` lines of one event, as the standard has it. */
function event(text: string): string {
  return `${text
    .split(/\r\n|\r|\n/)
    .map((line) => `data: ${line}`)
    .join('\n')}\n\n`
}
