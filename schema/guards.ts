import { z } from 'zod'
import { isNetwork } from './address.ts'
import { isRateLimit } from './rate.ts'

/**
 * What guards a campaign's claims beside the arbiter (CL4, CL5, CL17). It is part of the campaign's rules and
 * reaches the edge with the campaign's snapshot. Lists are short on purpose: they travel once a second.
 */

const entriesMax = 1_000
const name = z.string().min(1).max(256)
/** An address or a network, such as 192.0.2.0/24 or 2001:db8::/48. */
const network = z.string().max(49).refine(isNetwork, 'an address or a network, such as 192.0.2.0/24')
const networks = z.array(network).max(entriesMax)

const limitShape = z
  .object({
    count: z.int().min(1).max(1_000_000_000),
    per_ms: z.int().min(100).max(86_400_000),
    burst: z.int().min(1).optional(),
  })
  .strict()
  .refine(isRateLimit, 'burst must be less than count, or 1')

const routeLimitsShape = z
  .object({
    campaign: limitShape.optional(),
    user: limitShape.optional(),
    device: limitShape.optional(),
    address: limitShape.optional(),
    network: limitShape.optional(),
    site: limitShape.optional(),
  })
  .strict()

const score = z.int().min(-1_000).max(1_000)
const riskRuleShape = z.discriminatedUnion('kind', [
  /** More than `count` claim tokens asked for in a window by the same user, device or address. */
  z
    .object({
      kind: z.literal('velocity'),
      of: z.enum(['user', 'device', 'address']),
      count: z.int().min(1).max(1_000_000),
      per_ms: z.int().min(1_000).max(86_400_000),
      score,
    })
    .strict(),
  /** More than `users` users on one device in a window. */
  z
    .object({
      kind: z.literal('device_sharing'),
      users: z.int().min(1).max(1_000),
      per_ms: z.int().min(1_000).max(86_400_000),
      score,
    })
    .strict(),
  z.object({ kind: z.literal('address_reputation'), networks, score }).strict(),
])
export type RiskRule = z.infer<typeof riskRuleShape>

const riskShape = z
  .object({
    rules: z.array(riskRuleShape).max(20),
    /** From these sums of scores on; the strictest that fits counts. */
    challenge_at: z.int().optional(),
    review_at: z.int().optional(),
    deny_at: z.int().optional(),
  })
  .strict()

const versionForm = /^\d{1,6}(\.\d{1,6}){0,3}$/

const rolloutShape = z
  .object({
    /** Hundredths of a percent of all users; a larger share holds everyone of a smaller one. */
    basis_points: z.int().min(0).max(10_000).optional(),
    /** ISO 3166 codes of where the request comes from. */
    regions: z
      .array(z.string().regex(/^[A-Z]{2}$/))
      .max(300)
      .optional(),
    /** Of `Client-Channel`. */
    channels: z.array(z.string().min(1).max(64)).max(100).optional(),
    /** Of `Client-Version`, both included. */
    client_version: z
      .object({
        min: z.string().regex(versionForm).optional(),
        max: z.string().regex(versionForm).optional(),
      })
      .strict()
      .optional(),
  })
  .strict()

export const guardsShape = z
  .object({
    limits: z
      .object({ token: routeLimitsShape.optional(), claim: routeLimitsShape.optional() })
      .strict()
      .optional(),
    /** Every claim token costs a solved Turnstile challenge. */
    turnstile: z.boolean().optional(),
    rollout: rolloutShape.optional(),
    /** Only these users may claim (case-A14). */
    audience: z
      .object({ users: z.array(name).min(1).max(entriesMax) })
      .strict()
      .optional(),
    blocked: z
      .object({
        users: z.array(name).max(entriesMax).optional(),
        devices: z.array(name).max(entriesMax).optional(),
        networks: networks.optional(),
      })
      .strict()
      .optional(),
    risk: riskShape.optional(),
  })
  .strict()
export type Guards = z.infer<typeof guardsShape>
export type Rollout = z.infer<typeof rolloutShape>
export type Risk = z.infer<typeof riskShape>
