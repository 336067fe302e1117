import { readFileSync } from 'node:fs'
import { importJWK, type JWK, SignJWT } from 'jose'
import type { Role } from '../http/identity.ts'
import { OpsError } from './errors.ts'

/** `iss` and `aud` of the local stack's logins. */
const issuer = 'https://login.tidegate.invalid'
const audience = 'tidegate'

export interface LoginRequest {
  user: string
  role?: Role | undefined
  ttlS: number
}

/** Makes a login as the local stack's issuer would, with the key that it keeps in `keysFile`. @throws OpsError */
export async function mintLocalLogin(keysFile: string, { user, role, ttlS }: LoginRequest): Promise<string> {
  const jwk = readPrivateKey(keysFile)
  const nowS = Math.floor(Date.now() / 1000)
  return new SignJWT(role === undefined ? {} : { role })
    .setProtectedHeader({ alg: 'ES256', kid: jwk.kid ?? '', typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject(user)
    .setIssuedAt(nowS)
    .setExpirationTime(nowS + ttlS)
    .sign(await importJWK(jwk, 'ES256'))
}

function readPrivateKey(keysFile: string): JWK {
  let keys: { login?: { privateKey?: JWK } }
  try {
    keys = JSON.parse(readFileSync(keysFile, 'utf8'))
  } catch {
    throw new OpsError(
      'usage',
      `There is no local stack's key file at ${keysFile}. Run npm start, or give --token.`,
    )
  }
  if (keys.login?.privateKey?.d === undefined)
    throw new OpsError('usage', `${keysFile} has no login key. Run npm start, or give --token.`)
  return keys.login.privateKey
}
