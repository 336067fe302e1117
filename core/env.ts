import { z } from 'zod'
import { mainStore, storeNameForm } from '../schema/campaignId.ts'
import type { StoreSpec } from './stores/store.ts'

/**
 * The core's configuration. Read once, at start, from the environment; frozen afterwards.
 * Messages name the variable and its cure and never repeat a value: values may be secrets.
 */

const url = (protocols: readonly string[], cure: string) =>
  z
    .string({ error: `is missing: ${cure}` })
    .refine((text) => URL.canParse(text) && protocols.includes(new URL(text).protocol), {
      error: `is not such a URL: ${cure}`,
    })

const redisCure =
  'give redis://host:port or rediss://… of the same database the edge uses; of a cluster several, with commas'

/** One address, or a cluster's first addresses, separated by commas. */
function redisUrls(given: unknown): string[] | undefined {
  if (typeof given !== 'string') return undefined
  const urls = given.split(',').map((part) => part.trim())
  return urls.every((one) => URL.canParse(one) && /^rediss?:$/.test(new URL(one).protocol)) ? urls : undefined
}

const storesCure =
  'give JSON: {"name":"redis://…"}, names of 1 to 16 of a-z 0-9 and not main; of a cluster several addresses, with commas'

/** The stores beside the main one. */
function storesOf(json: string): StoreSpec[] | undefined {
  try {
    return Object.entries(JSON.parse(json) as Record<string, unknown>).map(([name, given]) => {
      const urls = redisUrls(given)
      if (urls === undefined || name === mainStore || !storeNameForm.test(name)) throw new Error(name)
      return Object.freeze({ name, urls })
    })
  } catch {
    return undefined
  }
}

const text = (cure: string) => z.string({ error: `is missing: ${cure}` }).min(1, `is empty: ${cure}`)

const keys = (purpose: string) =>
  text(`give kid:secret[,kid:secret…], secrets of at least 32 characters, ${purpose}`)

const onOff = (fallback: boolean, cure: string) =>
  z
    .enum(['true', 'false', '1', '0'], { error: cure })
    .optional()
    .transform((value) => (value === undefined ? fallback : value === 'true' || value === '1'))

const algorithms = ['ES256', 'ES384', 'RS256', 'PS256', 'EdDSA'] as const
const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

const shape = z.object({
  DATABASE_URL: url(['postgres:', 'postgresql:'], 'give postgres://user:password@host:port/database'),
  REDIS_URL: z
    .string({ error: `is missing: ${redisCure}` })
    .refine((given) => redisUrls(given) !== undefined, { error: `is not such a URL: ${redisCure}` }),
  REDIS_STORES: z
    .string()
    .default('{}')
    .refine((json) => storesOf(json) !== undefined, { error: storesCure }),
  CORE_HOST: z.string().min(1).default('127.0.0.1'),
  CORE_PORT: z.coerce
    .number({ error: 'give a port, or 0 for any free one' })
    .int('give a port, or 0 for any free one')
    .min(0, 'give a port, or 0 for any free one')
    .max(65_535, 'give a port, or 0 for any free one')
    .default(0),
  LOGIN_JWKS_URL: url(['http:', 'https:'], 'give the address of the login’s public keys (a JWKS document)'),
  LOGIN_ISSUER: text('give the `iss` of login tokens'),
  LOGIN_AUDIENCE: text('give the `aud` of login tokens'),
  LOGIN_ALGORITHM: z.enum(algorithms, { error: `give one of ${algorithms.join(', ')}` }).default('ES256'),
  CLAIM_TOKEN_KEYS: keys('the same as at the edge'),
  RECEIPT_KEYS: keys('the same as at the edge'),
  CAMPAIGN_ID_KEYS: keys('the same as at the edge'),
  EDGE_CORE_KEYS: keys('the same as at the edge'),
  DATABASE_PREPARE: onOff(true, 'give true, or false behind a pooler in transaction mode'),
  VAPID_PRIVATE_KEY: z
    .string()
    .regex(/^[A-Za-z0-9_-]{43}$/, 'give the 32 bytes of a P-256 private key as base64url')
    .optional(),
  VAPID_SUBJECT: z
    .string()
    .regex(
      /^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/,
      'give mailto:… or https://… for push services to reach you',
    )
    .optional(),
  OUTBOUND_INSECURE: onOff(
    false,
    'give true, for tests only, to let webhooks and pushes go to http and private addresses',
  ),
  LOG_LEVEL: z.enum(levels, { error: `give one of ${levels.join(', ')}` }).default('info'),
  TIDEGATE_PARENT: onOff(false, 'give 1 to end with the process that started this one'),
})

/** Web Push: both, or neither for none. */
const complete = shape.superRefine((env, ctx) => {
  for (const [name, other] of [
    ['VAPID_PRIVATE_KEY', 'VAPID_SUBJECT'],
    ['VAPID_SUBJECT', 'VAPID_PRIVATE_KEY'],
  ] as const)
    if (env[name] === undefined && env[other] !== undefined)
      ctx.addIssue({ code: 'custom', path: [name], message: `is missing: give it with ${other}, or neither` })
})

export interface CoreEnv {
  readonly databaseUrl: string
  readonly databasePrepare: boolean
  /** Where gates are; the main store is the first (SC2). */
  readonly stores: readonly StoreSpec[]
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly login: {
    readonly jwksUrl: string
    readonly issuer: string
    readonly audience: string
    readonly algorithm: (typeof algorithms)[number]
  }
  readonly keys: {
    readonly claimToken: string
    readonly receipt: string
    readonly campaignId: string
    readonly edgeCore: string
  }
  /** Undefined: no Web Push. */
  readonly vapid: { readonly privateKey: string; readonly subject: string } | undefined
  /** Webhooks and pushes may go to http and to private addresses: for tests. */
  readonly outboundInsecure: boolean
  readonly logLevel: (typeof levels)[number]
  /** End when the parent's pipe to our stdin closes. */
  readonly endWithParent: boolean
}

export class ConfigurationError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'ConfigurationError'
  }
}

/** @throws ConfigurationError with one line for each variable that is wrong. */
export function parseEnv(source: Readonly<Record<string, string | undefined>>): CoreEnv {
  const given = Object.fromEntries(Object.entries(source).filter(([, value]) => value !== ''))
  const parsed = complete.safeParse(given)
  if (!parsed.success)
    throw new ConfigurationError(
      parsed.error.issues.map((issue) => `${issue.path.join('.')}: ${issue.message}`).join('\n'),
    )
  const env = parsed.data
  return Object.freeze({
    databaseUrl: env.DATABASE_URL,
    databasePrepare: env.DATABASE_PREPARE,
    stores: Object.freeze([
      Object.freeze({ name: mainStore, urls: redisUrls(env.REDIS_URL)! }),
      ...storesOf(env.REDIS_STORES)!,
    ]),
    host: env.CORE_HOST,
    port: env.CORE_PORT,
    login: Object.freeze({
      jwksUrl: env.LOGIN_JWKS_URL,
      issuer: env.LOGIN_ISSUER,
      audience: env.LOGIN_AUDIENCE,
      algorithm: env.LOGIN_ALGORITHM,
    }),
    keys: Object.freeze({
      claimToken: env.CLAIM_TOKEN_KEYS,
      receipt: env.RECEIPT_KEYS,
      campaignId: env.CAMPAIGN_ID_KEYS,
      edgeCore: env.EDGE_CORE_KEYS,
    }),
    vapid:
      env.VAPID_PRIVATE_KEY === undefined || env.VAPID_SUBJECT === undefined
        ? undefined
        : Object.freeze({ privateKey: env.VAPID_PRIVATE_KEY, subject: env.VAPID_SUBJECT }),
    outboundInsecure: env.OUTBOUND_INSECURE,
    logLevel: env.LOG_LEVEL,
    endWithParent: env.TIDEGATE_PARENT,
  })
}
