import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { limits } from '../schema/limits.ts'
import { Away } from './away.ts'
import { bounds } from './bounds.ts'
import type { LoginConfig } from './config.ts'
import { Kept } from './kept.ts'
import type { Lifetime } from './lifetime.ts'

export interface Logins {
  /**
   * The user of a login token (compact JWT), or undefined when it is not valid.
   * @throws Away when the issuer's keys can't be had.
   */
  userOf(token: string, lifetime: Lifetime): Promise<string | undefined>
}

/** The token of `Authorization: Bearer …`; undefined for anything else, and for one too long to be ours. */
export function bearer(authorization: string | null): string | undefined {
  const token = /^bearer +([\w.~+/=-]+) *$/i.exec(authorization ?? '')?.[1]
  return token !== undefined && token.length <= limits.loginTokenCharsMax ? token : undefined
}

/** A user id that every store of ours keeps as it is: no NUL (Postgres), no half of a surrogate pair (UTF-8). */
export function isUserId(sub: unknown): sub is string {
  return (
    typeof sub === 'string' &&
    sub.length > 0 &&
    sub.length <= limits.userIdCharsMax &&
    !sub.includes('\0') &&
    sub.isWellFormed()
  )
}

/**
 * Checks logins against the issuer's published keys, with the algorithm pinned. The keys are kept here and not
 * by jose's remote set: that one fetches once for each request that finds none, and fails with its issuer.
 */
export function makeLogins(config: LoginConfig, clock: () => number): Logins {
  const keys = new Kept<JWTVerifyGetKey>({
    load: fetchKeys,
    ttlMs: () => bounds.jwksTtlMs,
    retryMs: limits.retryAfterMs,
    staleMs: bounds.jwksStaleMs,
    what: 'login keys',
    timeoutMs: bounds.jwksTimeoutMs,
    entriesMax: 1,
    clock,
  })
  const verified = new VerifiedLogins(clock)

  async function verify(token: string, lifetime: Lifetime) {
    const { payload } = await jwtVerify(token, await keys.get(config.jwksUrl, lifetime), {
      algorithms: [config.algorithm],
      issuer: config.issuer,
      audience: config.audience,
      requiredClaims: ['sub', 'exp'],
      clockTolerance: limits.clockLeewayMs / 1000,
      currentDate: new Date(clock()),
    })
    return payload
  }

  return {
    async userOf(token, lifetime) {
      const known = verified.get(token)
      if (known !== undefined) return known
      try {
        const payload = await verify(token, lifetime).catch((error) => {
          // The issuer may have a new key that we have not seen.
          const unseen = error instanceof errors.JWKSNoMatchingKey
          if (!unseen || !keys.expire(config.jwksUrl, bounds.jwksRefreshEveryMs)) throw error
          return verify(token, lifetime)
        })
        if (!isUserId(payload.sub)) return undefined
        verified.add(token, payload.sub, payload.exp! * 1000 + limits.clockLeewayMs)
        return payload.sub
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined
        // What is not the login's fault is its issuer's: no answer, or a key that can't be used.
        throw error instanceof Away ? error : new Away('login keys: unusable', error)
      }
    },
  }
}

async function fetchKeys(jwksUrl: string): Promise<JWTVerifyGetKey> {
  const signal = AbortSignal.timeout(bounds.jwksTimeoutMs)
  try {
    const response = await fetch(jwksUrl, { headers: { Accept: 'application/json' }, signal })
    if (response.status !== 200) throw new Error(`HTTP ${response.status}`)
    return createLocalJWKSet(await response.json<JSONWebKeySet>())
  } catch (error) {
    throw new Away('login keys: no answer', error)
  }
}

/** Logins whose signature was checked: the same one comes with every request of its user. Oldest go first. */
class VerifiedLogins {
  readonly #clock: () => number
  readonly #logins = new Map<string, { userId: string; untilMs: number }>()
  #chars = 0

  constructor(clock: () => number) {
    this.#clock = clock
  }

  get(token: string): string | undefined {
    const login = this.#logins.get(token)
    if (login === undefined) return undefined
    if (this.#clock() < login.untilMs) return login.userId
    this.#drop(token)
    return undefined
  }

  add(token: string, userId: string, expiresAtMs: number): void {
    if (this.#logins.has(token)) this.#drop(token)
    const untilMs = Math.min(expiresAtMs, this.#clock() + bounds.loginKeptMs)
    this.#logins.set(token, { userId, untilMs })
    this.#chars += token.length
    for (const oldest of this.#logins.keys()) {
      if (this.#chars <= bounds.loginsKeptCharsMax) return
      this.#drop(oldest)
    }
  }

  #drop(token: string): void {
    if (this.#logins.delete(token)) this.#chars -= token.length
  }
}
