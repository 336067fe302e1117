import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { TotalBill } from './billing.ts'
import type { Executor } from './execute.ts'
import { type LinkFailure, type RedisAddress, RedisLinkError } from './redis-link.ts'
import { answerJson, errorJson, isError } from './reply.ts'
import {
  decode,
  parseCommand,
  parseCommands,
  parsePathCommand,
  RequestError,
  tokenInQuery,
} from './request.ts'
import type { Command } from './resp.ts'
import { streamSubscription } from './subscribe.ts'

export interface HttpContext {
  token: string
  address: RedisAddress
  executor: Executor
  billing: TotalBill
  /** What came in since the start or the last reset. */
  traffic: { httpRequests: number; commandsSent: number }
  log: (line: string) => void
}

/** Upstash's largest request. */
export const BODY_MAX_BYTES = 10 * 1024 * 1024

const UNAUTHORIZED =
  'WRONGPASS invalid or missing auth token. See https://docs.upstash.com/redis/troubleshooting/http_unauthorized for details.'

const FAILURES: Record<LinkFailure, { status: number; message: string }> = {
  unavailable: {
    status: 503,
    message: 'UNAVAILABLE Redis is not reachable and nothing was sent: try again in a second',
  },
  lost: {
    status: 502,
    message: 'REPLYLOST the connection to Redis broke: the command may have run, look before trying again',
  },
  timeout: {
    status: 504,
    message: 'TIMEOUT Redis did not answer in time: the command may have run, look before trying again',
  },
}

/** Answers one request; never throws, and always ends the response. */
export function handleRequest(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  answer(context, request, response).catch((error: unknown) => {
    if (error instanceof ClientGone) return
    // What is left unread of a refused body must not be taken for the next request.
    if (!request.complete) request.resume()
    if (error instanceof RequestError) return send(response, error.status, errorJson(error.message))
    if (error instanceof RedisLinkError) {
      const { status, message } = FAILURES[error.failure]
      return send(response, status, errorJson(message), status === 503 ? { 'retry-after': '1' } : {})
    }
    context.log(`request failed: ${error instanceof Error ? error.stack : String(error)}`)
    send(response, 500, errorJson('ERR internal error of the gateway: see its log'))
  })
}

async function answer(context: HttpContext, request: IncomingMessage, response: ServerResponse) {
  const url = request.url as string
  const mark = url.indexOf('?')
  const path = mark < 0 ? url : url.slice(0, mark)
  const query = mark < 0 ? '' : url.slice(mark + 1)
  if (!isAuthorized(context.token, request, query)) throw new RequestError(401, UNAUTHORIZED)
  if (!METHODS.has(request.method as string)) {
    throw new RequestError(405, 'ERR method not allowed: use GET, HEAD, POST or PUT')
  }
  if (path.startsWith('/_gateway/')) return answerStats(context, request, response, path)
  context.traffic.httpRequests += 1
  const subscription = /^\/(p?subscribe)\/(.+)$/i.exec(path)
  if (subscription) return subscribe(context, subscription, response)
  const format = formatOf(request)
  const body = await readBody(request)
  switch (path) {
    case '/':
    case '':
      return single(context, response, parseCommand(body), format)
    case '/pipeline': {
      const commands = parseCommands(body)
      context.traffic.commandsSent += commands.length
      return sendFrames(response, await context.executor.pipeline(commands), format)
    }
    case '/multi-exec': {
      const commands = parseCommands(body)
      context.traffic.commandsSent += commands.length
      const frames = await context.executor.transaction(commands)
      return sendFrames(response, frames, { ...format, resp2: false })
    }
    default:
      return single(context, response, parsePathCommand(path, query, body), format)
  }
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT'])

function isAuthorized(token: string, request: IncomingMessage, query: string): boolean {
  const header = request.headers.authorization
  if (header !== undefined) {
    return header === `Bearer ${token}` || (/^bearer /i.test(header) && header.slice(7).trim() === token)
  }
  return query !== '' && tokenInQuery(query) === token
}

interface Format {
  base64: boolean
  resp2: boolean
}

function formatOf(request: IncomingMessage): Format {
  const encoding = request.headers['upstash-encoding']
  const format = request.headers['upstash-response-format']
  if (encoding !== undefined && encoding !== '' && encoding !== 'base64') {
    throw new RequestError(400, 'ERR invalid Upstash-Encoding: send base64 or leave it out')
  }
  if (format !== undefined && format !== 'json' && format !== 'resp2') {
    throw new RequestError(400, 'ERR invalid Upstash-Response-Format: send json or resp2')
  }
  const wanted = { base64: encoding === 'base64', resp2: format === 'resp2' }
  if (wanted.base64 && wanted.resp2) {
    throw new RequestError(
      400,
      'ERR Upstash-Encoding base64 and Upstash-Response-Format resp2 exclude each other',
    )
  }
  return wanted
}

async function single(context: HttpContext, response: ServerResponse, command: Command, format: Format) {
  context.traffic.commandsSent += 1
  const frame = await context.executor.single(command)
  const status = isError(frame) ? 400 : 200
  if (format.resp2) return sendBytes(response, status, [frame])
  send(response, status, answerJson(frame, format.base64))
}

function sendFrames(response: ServerResponse, frames: Buffer[], format: Format) {
  if (format.resp2) return sendBytes(response, 200, frames)
  send(response, 200, `[${frames.map((frame) => answerJson(frame, format.base64)).join(',')}]`)
}

/** The SDK shows the token again with its next request, for read-your-writes; one Redis has that anyway. */
const SYNC_TOKEN = '1'

function send(response: ServerResponse, status: number, json: string, headers: OutgoingHttpHeaders = {}) {
  response.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(json),
    'upstash-sync-token': SYNC_TOKEN,
    ...headers,
  })
  response.end(json)
}

function sendBytes(response: ServerResponse, status: number, frames: Buffer[]) {
  const bytes = Buffer.concat(frames)
  response.writeHead(status, { 'content-type': 'application/octet-stream', 'content-length': bytes.length })
  response.end(bytes)
}

function subscribe(context: HttpContext, [, kind, names]: string[], response: ServerResponse) {
  const subscription = {
    kind: (kind as string).toUpperCase() as 'SUBSCRIBE' | 'PSUBSCRIBE',
    names: (names as string).split('/').map(decode),
  }
  context.traffic.commandsSent += 1
  streamSubscription(context.address, subscription, response, (status, message) =>
    send(response, status, errorJson(message)),
  )
}

async function answerStats(
  context: HttpContext,
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
) {
  const { billing, traffic } = context
  if (path === '/_gateway/stats' && request.method === 'GET') {
    await billing.sample()
  } else if (path === '/_gateway/stats/reset' && request.method === 'POST') {
    await billing.reset()
    traffic.httpRequests = 0
    traffic.commandsSent = 0
  } else {
    throw new RequestError(404, 'ERR not found: use GET /_gateway/stats or POST /_gateway/stats/reset')
  }
  const counts = { http_requests: traffic.httpRequests, commands_sent: traffic.commandsSent }
  send(response, 200, JSON.stringify({ ...counts, ...billing.bill() }))
}

class ClientGone extends Error {}

/** @throws {RequestError} 413 beyond the limit, as soon as that is known. */
function readBody(request: IncomingMessage): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const announced = Number(request.headers['content-length'] ?? 0)
    if (announced > BODY_MAX_BYTES) return reject(tooLarge(announced))
    const chunks: Buffer[] = []
    let length = 0
    request.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      length += chunk.length
      if (length <= BODY_MAX_BYTES) return
      request.removeAllListeners('data')
      reject(tooLarge(length))
    })
    request.on('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)))
    request.on('error', () => reject(new ClientGone()))
    request.on('close', () => reject(new ClientGone()))
  })
}

function tooLarge(actual: number): RequestError {
  return new RequestError(
    413,
    `ERR max request size exceeded. Limit: ${BODY_MAX_BYTES} bytes, Actual: ${actual} bytes. See https://upstash.com/docs/redis/troubleshooting/max_request_size_exceeded for details`,
  )
}
