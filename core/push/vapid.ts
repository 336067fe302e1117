import { createECDH, createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { ConfigurationError } from '../env.ts'

/** Tells push services who sends (VAPID, RFC 8292): a JWT by ES256 for the service's origin. */
export interface Vapid {
  /** For the browser's `applicationServerKey`: base64url of the uncompressed point. */
  readonly publicKey: string
  /** The Authorization header of a push to this endpoint. */
  authorization(endpoint: string, nowMs: number): string
}

/** RFC 8292 §2 allows a day at most; a clock that is off must not cost a push. */
const lifetimeS = 12 * 3_600
/** A token serves many pushes to its origin: signing costs more than sending. */
const renewBeforeS = 3_600
/** Push services of all browsers are fewer than ten; whoever subscribes invented ones must not fill the memory. */
const originsMax = 100

/**
 * @param privateKey base64url of the P-256 private key, 32 bytes.
 * @param subject `mailto:` or https address under which push services reach us.
 * @throws ConfigurationError
 */
export function makeVapid(privateKey: string, subject: string): Vapid {
  const ecdh = createECDH('prime256v1')
  const d = Buffer.from(privateKey, 'base64url')
  try {
    if (d.length !== 32) throw new Error('length')
    ecdh.setPrivateKey(d)
  } catch {
    throw new ConfigurationError(
      'VAPID_PRIVATE_KEY: is no P-256 key: give its 32 bytes as base64url, as `web-push generate-vapid-keys` does',
    )
  }
  const point = ecdh.getPublicKey()
  const publicKey = point.toString('base64url')
  const key = createPrivateKey({
    format: 'jwk',
    key: {
      kty: 'EC',
      crv: 'P-256',
      d: d.toString('base64url'),
      x: point.subarray(1, 33).toString('base64url'),
      y: point.subarray(33).toString('base64url'),
    },
  })
  const tokens = new Map<string, { token: string; expiresAtS: number }>()
  return {
    publicKey,
    authorization(endpoint, nowMs) {
      const { origin } = new URL(endpoint)
      const nowS = Math.floor(nowMs / 1000)
      let kept = tokens.get(origin)
      if (kept === undefined || kept.expiresAtS - nowS < renewBeforeS || kept.expiresAtS - nowS > lifetimeS) {
        const expiresAtS = nowS + lifetimeS
        kept = { token: tokenOf(key, { aud: origin, exp: expiresAtS, sub: subject }), expiresAtS }
        if (tokens.size >= originsMax) tokens.clear()
        tokens.set(origin, kept)
      }
      return `vapid t=${kept.token}, k=${publicKey}`
    },
  }
}

function tokenOf(key: KeyObject, claims: object): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const content = `${part({ typ: 'JWT', alg: 'ES256' })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(content), { key, dsaEncoding: 'ieee-p1363' })
  return `${content}.${signature.toString('base64url')}`
}
