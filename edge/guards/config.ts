import { type BlockList, makeBlockList } from './blocks.ts'
import { type Limits, parseLimits } from './limits.ts'
import type { RateBinding } from './location.ts'
import type { SharedStore } from './sharedLimits.ts'
import type { TurnstileConfig } from './turnstile.ts'

/** The guards' bindings; all may be left out. */
export interface GuardBindings {
  /** `required` (unless set) or `optional`: whether a request without CF-Connecting-IP is refused. */
  readonly CLIENT_ADDRESS?: string
  /** See `parseLimits`. */
  readonly LIMITS?: string
  /** Where the limits of token issue and the risk rules are counted; the arbiter's Redis unless set. */
  readonly LIMITS_REDIS_REST_URL?: string
  readonly LIMITS_REDIS_REST_TOKEN?: string
  /** Separated by commas. */
  readonly BLOCKED_NETWORKS?: string
  readonly BLOCKED_DEVICES?: string
  readonly BLOCKED_USERS?: string
  readonly TURNSTILE_SECRET?: string
  readonly TURNSTILE_SITE_KEY?: string
  readonly TURNSTILE_VERIFY_URL?: string
  readonly TURNSTILE_HOSTNAMES?: string
  readonly PLATFORM_RATE?: RateBinding
  readonly CAMPAIGN_RATE?: RateBinding
}

export interface GuardConfig {
  readonly addressRequired: boolean
  readonly limits: Limits
  readonly store: SharedStore
  readonly blocked: BlockList
  readonly turnstile: TurnstileConfig | undefined
}

const siteverify = 'https://challenges.cloudflare.com/turnstile/v0/siteverify'

/** @throws with a sentence that names the variable and its cure, never a secret. */
export function parseGuardConfig(bindings: GuardBindings, arbiterStore: SharedStore): GuardConfig {
  const client = bindings.CLIENT_ADDRESS || 'required'
  if (client !== 'required' && client !== 'optional')
    throw new Error('CLIENT_ADDRESS is neither required nor optional')
  return Object.freeze({
    addressRequired: client === 'required',
    limits: parseLimits(bindings.LIMITS),
    store: parseStore(bindings) ?? arbiterStore,
    blocked: makeBlockList({
      networks: listOf(bindings.BLOCKED_NETWORKS),
      devices: listOf(bindings.BLOCKED_DEVICES),
      users: listOf(bindings.BLOCKED_USERS),
    }),
    turnstile: parseTurnstile(bindings),
  })
}

function parseStore({
  LIMITS_REDIS_REST_URL: url,
  LIMITS_REDIS_REST_TOKEN: token,
}: GuardBindings): SharedStore | undefined {
  if (!url && !token) return undefined
  if (!url || !token)
    throw new Error('LIMITS_REDIS_REST_URL and LIMITS_REDIS_REST_TOKEN go together: set both or none')
  return { url: checked('LIMITS_REDIS_REST_URL', url), token }
}

function parseTurnstile(bindings: GuardBindings): TurnstileConfig | undefined {
  if (!bindings.TURNSTILE_SECRET) return undefined
  return Object.freeze({
    url: checked('TURNSTILE_VERIFY_URL', bindings.TURNSTILE_VERIFY_URL || siteverify),
    secret: bindings.TURNSTILE_SECRET,
    siteKey: bindings.TURNSTILE_SITE_KEY || undefined,
    hostnames: listOf(bindings.TURNSTILE_HOSTNAMES),
  })
}

function checked(name: string, url: string): string {
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new Error(`${name} is not an http or https address`)
  return url
}

function listOf(text = ''): string[] {
  return text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
}
