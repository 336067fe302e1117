import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { migrate } from '../schema/db/migrate.ts'
import { sealAssertion } from '../schema/tokens.ts'
import { LOGIN_AUDIENCE, LOGIN_ISSUER, mintLogin, startIssuer } from '../stack/issuer.ts'
import { makeKeys, type StackKeys } from '../stack/keys.ts'
import { discard, type FreshRedis, freshDatabase, freshRedis } from '../stack/testing.ts'
import { connect } from './connect.ts'
import type { Deps } from './deps.ts'
import { parseEnv } from './env.ts'
import { buildApp } from './http/routes.ts'
import type { CoreApp } from './http/types.ts'

/** Not a test: the core's app on a Postgres and a Redis of its own, for the tests beside it. */

export interface Answer {
  status: number
  body: Record<string, unknown>
  text: string
  headers: Headers
}

export interface Rig {
  deps: Deps
  app: CoreApp
  redis: FreshRedis
  env: Record<string, string>
  /** What was logged, one object a line. */
  logs: Record<string, unknown>[]
  /** `who` is `role:user`; the role may be empty. */
  login(who: string, ttlS?: number): Promise<string>
  assertion(user: string, nowMs?: number): string
  get(who: string, path: string, headers?: Record<string, string>): Promise<Answer>
  /** With an Idempotency-Key of its own where it makes something, unless headers say otherwise. */
  post(who: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  close(): Promise<void>
}

/** @param also adds routes of parts that have more than `deps`. @param variables go over the environment. */
export async function makeRig(
  given?: StackKeys,
  also?: (app: CoreApp, deps: Deps) => void,
  variables: Record<string, string> = {},
): Promise<Rig> {
  const [database, redis, keys] = await Promise.all([freshDatabase(), freshRedis(), given ?? makeKeys()])
  const issuer = await startIssuer(keys)
  const env = {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    LOGIN_JWKS_URL: issuer.jwksUrl,
    LOGIN_ISSUER,
    LOGIN_AUDIENCE,
    CLAIM_TOKEN_KEYS: keys.claimTokenKeys,
    RECEIPT_KEYS: keys.receiptKeys,
    CAMPAIGN_ID_KEYS: keys.campaignIdKeys,
    EDGE_CORE_KEYS: keys.edgeCoreKeys,
    ...variables,
  }
  await migrate(database.url)
  const logs: Record<string, unknown>[] = []
  const log = pino({ level: 'debug' }, { write: (line: string) => logs.push(JSON.parse(line)) })
  const { deps, close } = connect(parseEnv(env), log)
  const app = buildApp(deps, { isStopping: () => false, also: (app) => also?.(app, deps) })

  const login = (who: string, ttl_s = 60) => {
    const [role, user] = who.split(':') as [string, string]
    return mintLogin(keys, role === '' ? { user, ttl_s } : { user, role, ttl_s })
  }
  const send = async (who: string, path: string, init: RequestInit & { headers: Record<string, string> }) => {
    const headers = { Authorization: `Bearer ${await login(who)}`, ...init.headers }
    return answerOf(await app.request(path, { ...init, headers }))
  }
  return {
    deps,
    app,
    redis,
    env,
    logs,
    login,
    assertion: (user, nowMs = Date.now()) => sealAssertion(user, nowMs, deps.keyrings.edgeCore),
    get: (who, path, headers = {}) => send(who, path, { headers }),
    post: (who, path, body, headers) =>
      send(who, path, {
        method: 'POST',
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        headers: {
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
          ...(headers ?? (path.endsWith('/campaigns') ? { 'Idempotency-Key': randomUUID() } : {})),
        },
      }),
    async close() {
      await close()
      await issuer.stop()
      await Promise.all([database.drop(), discard(redis)])
    },
  }
}

export async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text()
  const json = response.headers.get('content-type')?.includes('json') === true
  return { status: response.status, body: json ? JSON.parse(text) : {}, text, headers: response.headers }
}
