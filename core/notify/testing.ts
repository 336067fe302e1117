import assert from 'node:assert/strict'
import { sealAssertion } from '../../schema/tokens.ts'
import { registerClaimRoutes } from '../claim/routes.ts'
import type { Ground } from '../claim/testing.ts'
import { buildApp } from '../http/routes.ts'
import { startHttp } from '../http/server.ts'
import { startHub } from './hub.ts'
import { startPublisher } from './publisher.ts'
import { type Streams, startStreams } from './streams.ts'

/** The core's HTTP side with its streams, for tests; users are vouched for as by the edge. */
export interface Service {
  url: string
  streams: Streams
  headersOf(userId: string): Record<string, string>
  get(path: string, userId: string): Promise<Response>
  listen(path: string, userId: string, lastEventId?: string): Promise<Listener>
  close(): Promise<void>
}

export interface Told {
  id: string
  type: string
  data: Record<string, unknown>
}

export interface Listener {
  events: Told[]
  ended: Promise<void>
  /** The first event of this type, also one that came already. */
  next(type: string): Promise<Told>
  hangUp(): void
}

export async function serveStreams(ground: Ground): Promise<Service> {
  const { deps } = ground
  const hub = ground.runs(startHub(deps))
  ground.runs(startPublisher(deps))
  const streams = ground.runs(startStreams(deps, hub))
  const app = buildApp(deps, {
    isStopping: () => false,
    also: (of) => registerClaimRoutes(of, deps, streams),
  })
  const http = await startHttp(app, '127.0.0.1', 0)
  const headersOf = (userId: string) => ({
    'Tidegate-Assertion': sealAssertion(userId, Date.now(), deps.keyrings.edgeCore),
  })
  return {
    url: http.url,
    streams,
    headersOf,
    get: (path, userId) => fetch(http.url + path, { headers: headersOf(userId) }),
    listen: (path, userId, lastEventId) =>
      listen(http.url + path, {
        ...headersOf(userId),
        ...(lastEventId === undefined ? {} : { 'Last-Event-ID': lastEventId }),
      }),
    close: () => http.stop(100),
  }
}

const deadlineMs = 30_000

/** Opens the stream at `url` and keeps what it tells. */
export async function listen(url: string, headers: Record<string, string>): Promise<Listener> {
  const abort = new AbortController()
  const response = await fetch(url, { headers, signal: abort.signal })
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
  assert.match(response.headers.get('cache-control')!, /no-store/)
  const events: Told[] = []
  const waiting = new Set<() => void>()
  const read = async () => {
    let rest = ''
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (rest + chunk).split('\n\n')
      rest = blocks.pop()!
      events.push(...blocks.flatMap(readBlock))
      for (const look of waiting) look()
    }
  }
  return {
    events,
    ended: read().catch(() => undefined),
    next: (type) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`no ${type} in ${deadlineMs} ms`)), deadlineMs)
        const look = () => {
          const found = events.find((event) => event.type === type)
          if (found === undefined) return
          clearTimeout(timer)
          waiting.delete(look)
          resolve(found)
        }
        waiting.add(look)
        look()
      }),
    hangUp: () => abort.abort(),
  }
}

/** None for a comment or a bare field. */
function readBlock(block: string): Told[] {
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(block)?.[1]
  const type = field('event')
  return type === undefined ? [] : [{ type, id: field('id')!, data: JSON.parse(field('data')!) }]
}
