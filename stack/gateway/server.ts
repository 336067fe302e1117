/**
 * The Upstash-compatible gateway: Upstash's REST protocol in front of a stock Redis, so that what runs
 * against Upstash in production runs here unchanged. It listens on 127.0.0.1 only.
 *
 * Like Upstash:
 * - One command as a JSON array (`POST /`) or in the path (`/set/foo/bar`, a body is the next argument, the
 *   query's parameters follow it); `/pipeline`, not atomic; `/multi-exec`, atomic.
 * - `Authorization: Bearer` or `?_token=`; 401 and the WRONGPASS text otherwise.
 * - `{"result":…}` with 200, `{"error":"ERR …"}` with 400; in a pipeline or transaction an array of these
 *   with 200; a discarded transaction is one error with 400.
 * - `Upstash-Encoding: base64` (every text but the status OK), `Upstash-Response-Format: resp2`,
 *   `Upstash-Sync-Token`.
 * - Scripts that begin with `#!lua flags=allow-key-locking` are accepted and cached under the caller's
 *   digest, with NOSCRIPT when Redis lost them. With `strictKeys` a key that is not in KEYS is refused in
 *   Upstash's words.
 * - Commands that belong to a connection, blocking ones included, are refused; `/subscribe` and `/psubscribe`
 *   are server-sent events.
 * - `GET /_gateway/stats` counts commands as Upstash bills them (see billing.ts).
 *
 * Unlike Upstash:
 * - Keys are not locked: Redis runs one script at a time anyway. Without `strictKeys` undeclared keys go
 *   through, because the check costs more than 3 % of a script's time [measured: +7 % of a call with 130
 *   arguments, +80 % of a rate limit's].
 * - Errors raised by Redis and its Lua carry stock Redis's words, also for commands that Upstash does not
 *   have. `allow-key-locking` of functions (FUNCTION LOAD) is not adapted.
 * - No throughput cap, no read-only token, no ACL tokens, no `/monitor`, no JSON and search commands; a
 *   request may be 10 MiB, and over that is 413, which Upstash tells as 400.
 * - A Redis that is away is 503 (nothing was sent), 502 (sent, the answer was lost) or 504 (no answer in
 *   time).
 */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Billing, TotalBill } from './billing.ts'
import { ClusterLink, type Store } from './cluster-link.ts'
import { Executor } from './execute.ts'
import { handleRequest } from './http.ts'
import { parseRedisUrl, type RedisAddress, RedisLink } from './redis-link.ts'
import { isError, replyValue } from './reply.ts'
import { ScriptAliases } from './scripts.ts'
import { type CommandInfo, type KeyTable, readKeyTable, strictPrelude } from './strict-keys.ts'

export interface GatewayOptions {
  /** `redis://[user[:password]@]host[:port][/database]`; several, joined by commas, are a Redis Cluster. */
  redisUrl: string
  /** The bearer token callers must show. */
  token: string
  /** 0 for any free one. */
  port: number
  /**
   * Refuse keys that a key-locking script did not declare; costs time in every such script. Off unless given.
   */
  strictKeys?: boolean
  /** Longest wait for Redis's answer to a command; 5,000 unless given. */
  commandTimeoutMs?: number
  /** Told when Redis is lost, once a reason; silent unless given. */
  log?: (line: string) => void
}

export interface RunningGateway {
  /** Such as `http://127.0.0.1:41234`. */
  url: string
  /** Ends all connections; requests under way are cut off. */
  close(): Promise<void>
}

const COMMAND_TIMEOUT_MS = 5000
/**
 * Longer than callers' pools keep idle connections, so that they and not we close them: no request meets a
 * closing one.
 */
const KEEP_ALIVE_MS = 10 * 60_000
/** Longest time a caller may take to send a request. */
const REQUEST_MS = 30_000

/**
 * Starts a gateway. It settles when it listens; if Redis is away then, requests are answered 503 until it
 * comes.
 * @throws when the port is taken or the URL of Redis can't be understood.
 */
export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const addresses = options.redisUrl.split(',').map(parseRedisUrl)
  const [address] = addresses as [RedisAddress]
  let keyTable: KeyTable = new Map()
  const bills: Billing[] = []
  const open = (node: RedisAddress): RedisLink => {
    const link = new RedisLink({
      address: node,
      commandTimeoutMs: options.commandTimeoutMs ?? COMMAND_TIMEOUT_MS,
      onTrouble: (reason) => options.log?.(`Redis at ${node.host}:${node.port} is away: ${reason}`),
      onReady: () => {
        if (!options.strictKeys) return
        // Without the table the check is still right, only slower, so a lost answer is no trouble.
        readCommands(link).then(
          (table) => {
            keyTable = table
          },
          () => undefined,
        )
      },
    })
    const bill = new Billing((commands) => link.request(commands))
    bills.push(bill)
    bill.start()
    return link
  }
  const link: Store = addresses.length > 1 ? new ClusterLink(addresses, open) : open(address)
  const billing = new TotalBill(bills)
  const rewrite = (body: string) => strictPrelude(body, keyTable) + body
  const context = {
    token: options.token,
    address,
    billing,
    executor: new Executor(
      (commands) => link.request(commands),
      new ScriptAliases(options.strictKeys ? rewrite : undefined),
    ),
    traffic: { httpRequests: 0, commandsSent: 0 },
    log: options.log ?? (() => undefined),
  }

  await link.firstAttempt()
  if (link.ready) await billing.sample().catch(() => undefined)
  const server = createServer(
    { keepAliveTimeout: KEEP_ALIVE_MS, requestTimeout: REQUEST_MS },
    (request, response) => handleRequest(context, request, response),
  )
  const stop = () => {
    billing.stop()
    link.close()
  }
  try {
    await listen(server, options.port)
  } catch (error) {
    stop()
    throw error
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve))
      stop()
      server.closeAllConnections()
      await closed
    },
  }
}

async function readCommands(link: Store): Promise<KeyTable> {
  const [frame] = (await link.request([['COMMAND']])) as [Buffer]
  return isError(frame) ? new Map() : readKeyTable(replyValue(frame) as CommandInfo[])
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host: '127.0.0.1' }, () => resolve())
  })
}
