import { lookup } from 'node:dns/promises'
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { limits } from '../../../schema/limits.ts'
import { isPublicAddress } from './address.ts'
import { hostOf, targetFault } from './target.ts'

/**
 * Posts to addresses that others chose, without becoming their way into our network: a name is resolved once, each
 * address of it must be public, and the connection goes to one of those that were checked, so that no second look-up
 * can answer something else (DNS rebinding). Redirects are answers like any other: never followed.
 */
export interface Poster {
  /** @throws PostFailed when no answer came, or none may be asked for. */
  post(url: string, headers: Readonly<Record<string, string>>, body: Buffer | string): Promise<Answer>
  /** Ends idle connections; those in use end with their answer. */
  close(): void
}

export interface Answer {
  status: number
  /** ms that it asks us to wait, by Retry-After; undefined: it doesn't say. */
  retryAfterMs: number | undefined
}

/** Why no answer came, in words that its owner may read. */
export class PostFailed extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'PostFailed'
  }
}

export interface PosterOptions {
  /** http, and addresses that are not public: for tests. */
  insecure: boolean
  timeoutMs?: number
  clock(): number
  /** All addresses of a name. */
  resolve?(host: string): Promise<Resolved[]>
}

export interface Resolved {
  address: string
  family: number
}

/** What an answer says after its head is of no use; more of it than this is not even read. */
const answerBytesMax = 16_384
const idleMs = 10_000
const retryAfterMaxMs = 3_600_000

export function makePoster(options: PosterOptions): Poster {
  const resolve = options.resolve ?? ((host) => lookup(host, { all: true }))
  const { insecure, timeoutMs = limits.deliveryTimeoutMs } = options
  const kept = { keepAlive: true, timeout: idleMs, maxSockets: limits.deliveriesPerEndpointMax }
  const agents = { 'http:': new HttpAgent(kept), 'https:': new HttpsAgent(kept) }

  async function checked(url: URL): Promise<Resolved[]> {
    const host = hostOf(url)
    const found = isIP(host) === 0 ? await resolve(host) : [{ address: host, family: isIP(host) }]
    if (found.length === 0) throw new PostFailed('The host name has no address.')
    if (!insecure && !found.every(({ address }) => isPublicAddress(address)))
      throw new PostFailed('The host name leads to an address that is not public.')
    return found
  }

  return {
    async post(text, headers, body) {
      if (targetFault(text, insecure) !== undefined) throw new PostFailed('The URL may not be delivered to.')
      const url = new URL(text)
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const addresses = await abortable(checked(url), signal)
        const answer = await send(url, headers, body, { addresses, agents, signal })
        return { status: answer.statusCode!, retryAfterMs: retryAfterOf(answer, options.clock()) }
      } catch (error) {
        if (error instanceof PostFailed) throw error
        if (signal.aborted) throw new PostFailed(`No answer within ${timeoutMs / 1000} s.`, error)
        throw new PostFailed(wordsOf(error), error)
      }
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy()
    },
  }
}

interface Way {
  addresses: Resolved[]
  agents: { 'http:': HttpAgent; 'https:': HttpsAgent }
  signal: AbortSignal
}

async function send(
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: Buffer | string,
  { addresses, agents, signal }: Way,
): Promise<IncomingMessage> {
  const secure = url.protocol === 'https:'
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = (secure ? httpsRequest : httpRequest)(url, {
    method: 'POST',
    headers: { ...headers, 'Content-Length': String(Buffer.byteLength(body)) },
    agent: secure ? agents['https:'] : agents['http:'],
    lookup: knownAddresses(addresses),
    signal,
  })
  request.once('response', (answer) => drain(answer).then(() => resolve(answer)))
  request.once('error', reject)
  request.end(body)
  return promise
}

/** The connection asks here what its host's addresses are, and hears those that were checked. */
function knownAddresses(addresses: Resolved[]): LookupFunction {
  return (_, { all }, done) => {
    if (all) done(null, addresses)
    else done(null, addresses[0]!.address, addresses[0]!.family)
  }
}

/** Reads the answer's body away, so that the connection can serve again; a long one costs the connection instead. */
async function drain(answer: IncomingMessage): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of answer) {
      bytes += (chunk as Buffer).length
      if (bytes > answerBytesMax) break
    }
  } catch {
    // Its head was the answer; whatever broke after it changes nothing.
  }
}

/** RFC 9110 §10.2.3: seconds or a date. */
function retryAfterOf(answer: IncomingMessage, nowMs: number): number | undefined {
  const header = answer.headers['retry-after']
  if (header === undefined) return undefined
  const ms = /^\d{1,9}$/.test(header) ? Number(header) * 1000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), retryAfterMaxMs) : undefined
}

async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const late = Promise.withResolvers<never>()
  const abort = () => late.reject(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, late.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

const words: Record<string, string> = {
  ENOTFOUND: 'The host name is not known.',
  EAI_AGAIN: 'The host name could not be looked up.',
  ECONNREFUSED: 'The connection was refused.',
  ECONNRESET: 'The connection was cut.',
  EPIPE: 'The connection was cut.',
  ETIMEDOUT: 'The connection could not be made in time.',
  EHOSTUNREACH: 'The host can’t be reached.',
  ENETUNREACH: 'The host can’t be reached.',
  CERT_HAS_EXPIRED: 'The certificate has expired.',
}

/** Only what the owner of the address can use, and nothing of our network. */
function wordsOf(error: unknown): string {
  const { code = '' } = error as { code?: string }
  if (words[code] !== undefined) return words[code]
  if (/CERT|TLS|SSL|ALTNAME|EPROTO/.test(code)) return 'The TLS connection could not be made or trusted.'
  return 'No answer came.'
}
