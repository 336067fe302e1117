import type { ServerResponse } from 'node:http'
import { Counter, Gauge } from 'prom-client'
import { limits } from '../../schema/limits.ts'
import type { Deps, Running } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { type OutboxEvent, positionOf, type StreamPosition, sseText } from './event.ts'
import type { Follower, Hub } from './hub.ts'

/**
 * Streams of server-sent events, written straight to Node's response: a reader of a web stream, a promise and a
 * timer for each of ten thousand connections would be most of their memory. One timer beats for all of them.
 */
export interface Streams extends Running {
  /**
   * Opens a stream of a user's events: of all, or of one claim's until its final result. `begin` writes what the
   * client must know first; what happens meanwhile follows it.
   * @throws Refused RATE_LIMITED: the user has too many streams; poll instead (case-J8).
   * @throws what `begin` throws, with nothing written.
   */
  open(request: StreamRequest, begin: (stream: Stream) => Promise<void>): Promise<void>
}

export interface StreamRequest {
  response: ServerResponse
  userId: string
  /** Only this claim's events, until its final result. */
  requestId?: string
  /** Names the HTTP request. */
  httpRequestId: string
}

export interface Stream {
  tell(type: string, data: string, position: StreamPosition): void
  /** Writes what was told and ends the stream. */
  end(): void
}

export type StreamsDeps = Pick<Deps, 'metrics' | 'clock'>

/** A reader that leaves so much unread is dropped: resuming gives it all again, and costs no memory here. */
const unreadBytesMax = 64 * 1024
/** Every stream is visited this often, a part of them at a time, so that beats come evenly. */
const parts = 15
const partEveryMs = limits.sseHeartbeatMs / parts
/** Before a dropped client comes back; each client chooses within a range, so that they don't come at once. */
const retryMs = { least: 500, spread: 1_500 }

const finalTypes = new Set(['claim.delivered', 'claim.rejected'])

export function startStreams(deps: StreamsDeps, hub: Hub, options: { lifetimeMs?: number } = {}): Streams {
  const lifetimeMs = options.lifetimeMs ?? limits.sseLifetimeMs
  const open = new Set<Connection>()
  const gauge: Gauge = new Gauge({
    name: 'tidegate_streams_open',
    help: 'Open streams of events.',
    registers: [deps.metrics],
    collect: () => gauge.set(open.size),
  })
  const dropped = new Counter({
    name: 'tidegate_streams_dropped_total',
    help: 'Streams dropped because their reader was too slow.',
    registers: [deps.metrics],
  })
  const close = (connection: Connection) => {
    if (open.delete(connection)) hub.unfollow(connection)
  }
  let visited = 0
  const timer = setInterval(() => {
    const now = performance.now()
    visited = (visited + 1) % parts
    for (const connection of open) if (connection.part === visited) connection.beat(now)
  }, partEveryMs)
  let opened = 0

  return {
    async open(request, begin) {
      if (hub.countOf(request.userId) >= limits.sseConnectionsPerUserMax)
        throw new Refused('RATE_LIMITED', {
          detail: `You have ${limits.sseConnectionsPerUserMax} streams open. Close one, or poll the status.`,
          retry_after_ms: limits.pollAfterMaxMs,
        })
      // It went while it was being proven who it is: its end has been told to nobody.
      if (request.response.destroyed) return
      opened += 1
      const endsAt = performance.now() + lifetimeMs * (0.9 + Math.random() / 10)
      const connection = new Connection(request, opened % parts, endsAt, () => dropped.inc(), close)
      open.add(connection)
      hub.follow(connection)
      try {
        await begin(connection)
        connection.goLive()
      } catch (error) {
        close(connection)
        throw error
      }
    },
    async stop() {
      clearInterval(timer)
      for (const connection of [...open]) connection.end()
    },
  }
}

class Connection implements Follower, Stream {
  readonly userId: string
  /** Which part of all streams it is visited with. */
  readonly part: number
  readonly #response: ServerResponse
  readonly #requestId: string | undefined
  readonly #httpRequestId: string
  readonly #endsAt: number
  readonly #dropped: () => void
  readonly #close: (connection: Connection) => void
  /** What was heard before the beginning is written; undefined once live. */
  #held: OutboxEvent[] | undefined = []
  #started = false

  constructor(
    request: StreamRequest,
    part: number,
    endsAt: number,
    dropped: () => void,
    close: (connection: Connection) => void,
  ) {
    this.userId = request.userId
    this.part = part
    this.#response = request.response
    this.#requestId = request.requestId
    this.#httpRequestId = request.httpRequestId
    this.#endsAt = endsAt
    this.#dropped = dropped
    this.#close = close
    request.response.once('close', () => close(this))
    // A broken connection also closes; without a listener its error would end the process.
    request.response.on('error', () => undefined)
  }

  hear(event: OutboxEvent): void {
    if (this.#requestId !== undefined && event.requestId !== this.#requestId) return
    if (this.#held !== undefined) {
      this.#held.push(event)
      return
    }
    this.tell(event.type, event.data, positionOf(event))
    if (this.#requestId !== undefined && finalTypes.has(event.type)) this.end()
  }

  goLive(): void {
    this.#start()
    const held = this.#held ?? []
    this.#held = undefined
    for (const event of held) this.hear(event)
  }

  tell(type: string, data: string, position: StreamPosition): void {
    this.#start()
    this.#write(sseText(type, data, position))
  }

  beat(now: number): void {
    if (!this.#started) return
    if (now >= this.#endsAt) this.end()
    else this.#write(':\n\n')
  }

  end(): void {
    this.#held = []
    this.#close(this)
    if (this.#started) this.#response.end()
    else this.#response.destroy()
  }

  /** The head goes out with the first words: until then the request can still be refused. */
  #start(): void {
    if (this.#started) return
    this.#started = true
    this.#response.writeHead(200, {
      'Content-Type': 'text/event-stream; charset=utf-8',
      'Cache-Control': 'no-store, no-transform',
      'X-Accel-Buffering': 'no',
      'X-Content-Type-Options': 'nosniff',
      'X-Request-Id': this.#httpRequestId,
    })
    this.#write(`retry: ${retryMs.least + Math.floor(Math.random() * retryMs.spread)}\n\n`)
  }

  #write(text: string): void {
    if (this.#response.writableEnded || this.#response.destroyed) return
    this.#response.write(text)
    if (this.#response.writableLength <= unreadBytesMax) return
    this.#dropped()
    this.#close(this)
    this.#response.destroy()
  }
}
