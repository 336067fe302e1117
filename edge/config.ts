import { mainStore, storeNameForm } from '../schema/campaignId.ts'
import { type Keyring, parseKeyring } from '../schema/sealed.ts'
import { type GuardBindings, type GuardConfig, parseGuardConfig } from './guards/config.ts'
import { macFor } from './mac.ts'
import type { Dataset } from './metrics.ts'

/** The worker's bindings: texts from wrangler.toml's vars and from secrets, and the page's files. */
export interface Bindings extends GuardBindings {
  readonly UPSTASH_REDIS_REST_URL?: string
  readonly UPSTASH_REDIS_REST_TOKEN?: string
  /** JSON, name → {url, token}: the databases of campaigns that are not in the main one; a secret. */
  readonly UPSTASH_STORES?: string
  readonly CORE_URL?: string
  readonly LOGIN_JWKS_URL?: string
  readonly LOGIN_ISSUER?: string
  readonly LOGIN_AUDIENCE?: string
  readonly LOGIN_ALGORITHM?: string
  readonly CLAIM_TOKEN_KEYS?: string
  readonly RECEIPT_KEYS?: string
  readonly CAMPAIGN_ID_KEYS?: string
  readonly EDGE_CORE_KEYS?: string
  /** Who shows it reads `GET /_gate/metrics` and has Server-Timing; without it there is neither. */
  readonly METRICS_TOKEN?: string
  readonly METRICS?: Dataset
  readonly ASSETS?: { fetch(request: Request): Promise<Response> }
}

export interface Keyrings {
  readonly claimToken: Keyring
  /** Receipts and tickets. */
  readonly receipt: Keyring
  readonly campaignId: Keyring
  /** Assertions: what the core believes the edge. */
  readonly edgeCore: Keyring
}

export interface LoginConfig {
  readonly jwksUrl: string
  readonly issuer: string
  readonly audience: string
  /** The one algorithm believed, whatever a token's header says. */
  readonly algorithm: string
}

export interface RestAddress {
  readonly url: string
  readonly token: string
}

export interface Config {
  /** The main store's. */
  readonly redis: RestAddress
  /** The others, by name. */
  readonly stores: ReadonlyMap<string, RestAddress>
  readonly coreUrl: string
  readonly login: LoginConfig
  readonly keys: Keyrings
  readonly guards: GuardConfig
  readonly metricsToken: string | undefined
}

/** Only signatures by a private key: with a shared secret, whoever checks a login could also make one. */
const loginAlgorithms = ['ES256', 'ES384', 'RS256', 'PS256', 'EdDSA']

/** @throws with a sentence that names the variable and its cure, never a value: values may be secrets. */
export function parseConfig(bindings: Bindings): Config {
  const algorithm = bindings.LOGIN_ALGORITHM || 'ES256'
  if (!loginAlgorithms.includes(algorithm))
    throw new Error(`LOGIN_ALGORITHM is not one of ${loginAlgorithms.join(', ')}`)
  const redis = Object.freeze({
    url: address(bindings, 'UPSTASH_REDIS_REST_URL'),
    token: text(bindings, 'UPSTASH_REDIS_REST_TOKEN'),
  })
  return Object.freeze({
    redis,
    stores: parseStores(bindings.UPSTASH_STORES),
    coreUrl: address(bindings, 'CORE_URL'),
    login: Object.freeze({
      jwksUrl: address(bindings, 'LOGIN_JWKS_URL'),
      issuer: text(bindings, 'LOGIN_ISSUER'),
      audience: text(bindings, 'LOGIN_AUDIENCE'),
      algorithm,
    }),
    keys: Object.freeze({
      claimToken: parseKeyring('CLAIM_TOKEN_KEYS', bindings.CLAIM_TOKEN_KEYS, macFor),
      receipt: parseKeyring('RECEIPT_KEYS', bindings.RECEIPT_KEYS, macFor),
      campaignId: parseKeyring('CAMPAIGN_ID_KEYS', bindings.CAMPAIGN_ID_KEYS, macFor),
      edgeCore: parseKeyring('EDGE_CORE_KEYS', bindings.EDGE_CORE_KEYS, macFor),
    }),
    guards: parseGuardConfig(bindings, redis),
    metricsToken: optionalSecret(bindings, 'METRICS_TOKEN'),
  })
}

type TextName = Exclude<keyof Bindings, 'ASSETS' | 'METRICS' | 'PLATFORM_RATE' | 'CAMPAIGN_RATE'>

function text(bindings: Bindings, name: TextName): string {
  const value = bindings[name]
  if (!value) throw new Error(`${name} is missing: set it in wrangler.toml or with wrangler secret put`)
  return value
}

const secretCharsMin = 16

function optionalSecret(bindings: Bindings, name: TextName): string | undefined {
  const value = bindings[name]
  if (!value) return undefined
  if (value.length < secretCharsMin) throw new Error(`${name} is shorter than ${secretCharsMin} characters`)
  return value
}

/** An http(s) address, without a slash at its end. */
function address(bindings: Bindings, name: TextName): string {
  const value = text(bindings, name)
  if (!isAddress(value)) throw new Error(`${name} is not an http or https address`)
  return value.replace(/\/+$/, '')
}

function isAddress(value: string): boolean {
  return /^https?:\/\//.test(value) && URL.canParse(value)
}

function parseStores(json: string | undefined): ReadonlyMap<string, RestAddress> {
  const stores = new Map<string, RestAddress>()
  const wrong = new Error(
    'UPSTASH_STORES is not JSON like {"name":{"url":"https://…","token":"…"}}, names of 1 to 16 of a-z 0-9, not main',
  )
  let given: unknown
  try {
    given = JSON.parse(json || '{}')
  } catch {
    throw wrong
  }
  for (const [name, store] of Object.entries(given as Record<string, Partial<RestAddress> | null>)) {
    const { url, token } = store ?? {}
    const named = name !== mainStore && storeNameForm.test(name)
    if (!named || typeof url !== 'string' || !isAddress(url) || typeof token !== 'string' || token === '')
      throw wrong
    stores.set(name, Object.freeze({ url: url.replace(/\/+$/, ''), token }))
  }
  return stores
}
