import { Redis } from '@upstash/redis'
import { discard, type FreshRedis, freshRedis } from '../testing.ts'
import { type GatewayOptions, type RunningGateway, startGateway } from './server.ts'

/** A gateway over a real Redis of its own, for the gateway's tests. */
export interface Fixture {
  redis: FreshRedis
  gateway: RunningGateway
  url: string
  token: string
  /** A new SDK client without telemetry and retries. */
  sdk(): Redis
  /** A bare request with the token; `body` is sent as JSON unless it is text or bytes. */
  call(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  end(): Promise<void>
}

export interface Answer {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: whatever the gateway answered
  body: any
}

export async function startFixture(options: Partial<GatewayOptions> = {}): Promise<Fixture> {
  const redis = await freshRedis({ appendfsync: 'off' })
  const token = 'test-token'
  const gateway = await startGateway({ redisUrl: redis.url, token, port: 0, ...options })
  return {
    redis,
    gateway,
    url: gateway.url,
    token,
    sdk: () => new Redis({ url: gateway.url, token, enableTelemetry: false, retry: { retries: 0 } }),
    call: (path, body, headers) => call(gateway.url, token, path, body, headers),
    async end() {
      await gateway.close()
      await discard(redis)
    },
  }
}

async function call(
  url: string,
  token: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const raw = typeof body === 'string' || body instanceof Uint8Array
  const response = await fetch(url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${token}`, ...headers },
    ...(body === undefined ? {} : { body: raw ? (body as string) : JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}
