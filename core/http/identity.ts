import type { Context } from 'hono'
import { createRemoteJWKSet, errors, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { limits } from '../../schema/limits.ts'
import type { Keyring } from '../../schema/sealed.ts'
import { openAssertion } from '../../schema/tokens.ts'
import type { CoreEnv } from '../env.ts'
import { Refused } from '../refusal.ts'

/** Roles of DESIGN §7. A shopper's login has none. */
export const roles = ['operator', 'approver', 'support', 'finance', 'auditor', 'order-service'] as const
export type Role = (typeof roles)[number]

/** Who calls, proven by a login token. */
export interface Caller {
  /** `sub` of the login. */
  readonly actor: string
  readonly role: Role | undefined
}

/**
 * Proves who calls. Only two things are believed: a login token signed by the login's keys, and an assertion
 * signed by the edge. No id in a body, a query or another header ever is (CL2).
 * Each method throws Refused: UNAUTHENTICATED, or UNAVAILABLE when the login's keys can't be fetched.
 */
export interface Identity {
  /** A login of any kind, by `Authorization: Bearer`. */
  caller(c: Context): Promise<Caller>
  /** The shopper: by the edge's `Tidegate-Assertion`, or by a login token. */
  user(c: Context): Promise<string>
  /** The shopper, by the edge's assertion only: for what the edge has checked before. */
  vouched(c: Context): string
  /** The edge itself: an assertion without a user. */
  edge(c: Context): void
}

export interface IdentityOptions {
  login: CoreEnv['login']
  edgeCore: Keyring
  clock: () => number
}

export function makeIdentity({ login, edgeCore, clock }: IdentityOptions): Identity {
  const keys = createRemoteJWKSet(new URL(login.jwksUrl), { timeoutDuration: 3_000 })

  async function caller(c: Context): Promise<Caller> {
    return verifyLogin(bearerOf(c), keys, login, clock())
  }

  /** The asserted user ('' for the edge itself); undefined when there is no assertion. */
  function asserted(c: Context): string | undefined {
    const header = c.req.header('Tidegate-Assertion')
    if (header === undefined) return undefined
    const user = openAssertion(header, clock(), edgeCore)
    if (user === undefined)
      throw new Refused('UNAUTHENTICATED', {
        detail: 'The Tidegate-Assertion is forged or has expired. Make a new one for each request.',
      })
    return user
  }

  return {
    caller,
    async user(c) {
      const user = asserted(c)
      if (user === undefined) return (await caller(c)).actor
      if (!isUserId(user)) throw new Refused('UNAUTHENTICATED')
      return user
    },
    vouched(c) {
      const user = asserted(c)
      if (user === undefined || !isUserId(user))
        throw new Refused('UNAUTHENTICATED', { detail: 'Only the edge may ask this, for a user.' })
      return user
    },
    edge(c) {
      if (asserted(c) !== '')
        throw new Refused('UNAUTHENTICATED', {
          detail: 'Only the edge may ask this, with its own assertion.',
        })
    },
  }
}

export function forbidden(allowed: readonly Role[]): Refused {
  return new Refused('FORBIDDEN', { detail: `This needs the role ${allowed.join(' or ')}.` })
}

function bearerOf(c: Context): string {
  const match = /^Bearer +([A-Za-z0-9._~+/=-]+)$/i.exec(c.req.header('Authorization') ?? '')
  if (match === null || match[1]!.length > limits.loginTokenCharsMax) throw new Refused('UNAUTHENTICATED')
  return match[1]!
}

/** Failures of jose that say nothing about the token: the keys themselves could not be had. */
const keysAway = new Set([errors.JWKSTimeout.code, errors.JWKSInvalid.code, errors.JOSEError.code])

async function verifyLogin(
  token: string,
  keys: JWTVerifyGetKey,
  login: CoreEnv['login'],
  nowMs: number,
): Promise<Caller> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms: [login.algorithm],
      issuer: login.issuer,
      audience: login.audience,
      clockTolerance: limits.clockLeewayMs / 1000,
      currentDate: new Date(nowMs),
      requiredClaims: ['sub', 'exp'],
    })
    const { sub, role } = payload
    if (sub === undefined || !isUserId(sub)) throw new Refused('UNAUTHENTICATED')
    return { actor: sub, role: roles.find((known) => known === role) }
  } catch (error) {
    if (error instanceof Refused) throw error
    if (error instanceof errors.JOSEError && !keysAway.has(error.code)) throw new Refused('UNAUTHENTICATED')
    throw new Refused('UNAVAILABLE', {
      detail: 'The login’s keys can’t be fetched at the moment. Try again after retry_after_ms.',
      retry_after_ms: limits.retryAfterMs,
    })
  }
}

/** Any Unicode text that Postgres and Redis can hold as one value. */
function isUserId(text: string): boolean {
  return (
    text.length > 0 && text.length <= limits.userIdCharsMax && text.isWellFormed() && !text.includes('\0')
  )
}
