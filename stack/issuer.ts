import { createServer, type Server } from 'node:http'
import { importJWK, SignJWT } from 'jose'
import type { StackKeys } from './keys.ts'

/** `iss` and `aud` of local logins; constant, so that a login stays valid when the issuer's port changes. */
export const LOGIN_ISSUER = 'https://login.tidegate.invalid'
export const LOGIN_AUDIENCE = 'tidegate'

export interface LoginRequest {
  /** `sub` of the token: any text. */
  user: string
  /** An operator's or service's role; shoppers have none. */
  role?: string
  /** Lifetime in seconds; an hour unless given. */
  ttl_s?: number
}

export interface Issuer {
  url: string
  jwksUrl: string
  stop(): Promise<void>
}

/** Makes a signed login token (compact JWS, ES256) as the local login issuer would. */
export async function mintLogin(keys: StackKeys, request: LoginRequest): Promise<string> {
  const { user, role, ttl_s = 3_600 } = request
  const now = Math.floor(Date.now() / 1000)
  return new SignJWT(role === undefined ? {} : { role })
    .setProtectedHeader({ alg: 'ES256', kid: keys.login.privateKey.kid ?? '', typ: 'JWT' })
    .setIssuer(LOGIN_ISSUER)
    .setAudience(LOGIN_AUDIENCE)
    .setSubject(user)
    .setIssuedAt(now)
    .setExpirationTime(now + ttl_s)
    .sign(await importJWK(keys.login.privateKey, 'ES256'))
}

/** Serves the public login key at `/.well-known/jwks.json` on 127.0.0.1 (any free port unless given). */
export async function startIssuer(keys: StackKeys, port = 0): Promise<Issuer> {
  const body = JSON.stringify({ keys: [keys.login.publicKey] })
  const server: Server = createServer((request, response) => {
    const found =
      request.url === '/.well-known/jwks.json' && (request.method === 'GET' || request.method === 'HEAD')
    if (!found) {
      response
        .writeHead(404, { 'content-type': 'text/plain' })
        .end('The keys are at /.well-known/jwks.json\n')
      return
    }
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'public, max-age=300' })
    response.end(body)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host: '127.0.0.1' }, resolve)
  })
  const address = server.address()
  const bound = typeof address === 'object' && address !== null ? address.port : port
  const url = `http://127.0.0.1:${bound}`
  return {
    url,
    jwksUrl: `${url}/.well-known/jwks.json`,
    async stop() {
      server.closeAllConnections()
      await new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}
