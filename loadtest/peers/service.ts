import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { designOf } from './designs/all.ts'
import type { Design, PeerAnswer, Stores } from './designs/design.ts'
import { closeStores, openStores } from './stores.ts'

/**
 * One process of a peer: its front (HTTP on a port of its own, or the one it had) or its consumer.
 * Environment: PEER_DESIGN, PEER_ROLE (`front` or `consumer`), PEER_PORT, REDIS_URL, DATABASE_URL.
 */

const statusOf: Readonly<Record<PeerAnswer, number>> = {
  ACCEPTED: 202,
  SOLD_OUT: 409,
  LIMIT_REACHED: 409,
  BUSY: 503,
}

function answer(response: ServerResponse, code: PeerAnswer): void {
  const body = JSON.stringify({ code })
  response.writeHead(statusOf[code], {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
  })
  response.end(body)
}

/** The client hears 503 then, and presses again. */
const deadlineMs = 2_000

/**
 * Answers in time, whatever happens to the stores: the database's driver may wait for ever for a connection that died
 * with its server, so then all connections are made anew.
 */
async function decide(design: Design, user: string, key: string): Promise<PeerAnswer> {
  const used = stores
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<PeerAnswer>((resolve) => {
    timer = setTimeout(() => {
      if (stores === used) {
        stores = open()
        void closeStores(used)
      }
      resolve('BUSY')
    }, deadlineMs)
  })
  try {
    return await Promise.race([design.claim(used, user, key), late])
  } catch {
    // A store is away, or its answer was lost: as a service says it, without knowing which.
    return 'BUSY'
  } finally {
    clearTimeout(timer)
  }
}

function serve(design: Design, port: number): void {
  const server = createServer(async (request, response) => {
    const user = request.headers['user-id']
    const key = request.headers['idempotency-key']
    if (typeof user !== 'string' || typeof key !== 'string') {
      response.writeHead(400).end()
      return
    }
    answer(response, await decide(design, user, key))
  })
  server.keepAliveTimeout = 60_000
  server.listen(port, '127.0.0.1', () => listening((server.address() as AddressInfo).port))
}

async function consume(design: Design): Promise<void> {
  listening(0)
  for (;;) {
    try {
      await design.consume!(stores, () => false)
    } catch {
      // Its store is away: it goes on when that is back, as a supervisor's restart would have it.
      await pause(100)
    }
  }
}

function listening(port: number): void {
  console.log(JSON.stringify({ listening: `http://127.0.0.1:${port}` }))
}

const env = process.env
const design = designOf(env['PEER_DESIGN'] ?? '')
const open = () => openStores(env['REDIS_URL'] ?? '', env['DATABASE_URL'] ?? '')
let stores: Stores = open()
if (env['PEER_ROLE'] === 'consumer') void consume(design)
else serve(design, Number(env['PEER_PORT'] ?? 0))
