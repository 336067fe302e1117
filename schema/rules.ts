import { z } from 'zod'
import { guardsShape } from './guards.ts'
import { limits } from './limits.ts'

/** Shapes of a campaign's rules (GV3), as they stand in a rule version, in requests and in answers. */

const minor = z.string().regex(/^\d{1,15}$/, 'minor units, a string of digits')
export const moneyShape = z.object({ currency: z.string().regex(/^[A-Z]{3}$/), minor }).strict()

export const benefitShape = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('amount_off'), amount: moneyShape, threshold: moneyShape }).strict(),
  z
    .object({
      kind: z.literal('percent_off'),
      /** Hundredths of a percent: 1500 is 15 %. */
      basis_points: z.int().min(1).max(10_000),
      cap: moneyShape.optional(),
      threshold: moneyShape,
    })
    .strict(),
  z.object({ kind: z.literal('fixed_price'), price: moneyShape }).strict(),
  z.object({ kind: z.literal('free_shipping'), threshold: moneyShape }).strict(),
])
export type Benefit = z.infer<typeof benefitShape>

export const validityShape = z.discriminatedUnion('kind', [
  /** Half open: [from, to). */
  z.object({ kind: z.literal('fixed'), from: z.iso.datetime(), to: z.iso.datetime() }).strict(),
  /** From the moment of issue, for so many times 24 hours. */
  z.object({ kind: z.literal('days'), days: z.int().min(1).max(3660) }).strict(),
])
export type Validity = z.infer<typeof validityShape>

export const reviewShape = z
  .object({
    after_s: z
      .int()
      .min(1)
      .max(30 * 86_400),
    verdict: z.enum(['issue', 'reject']),
  })
  .strict()

export const rulesShape = z
  .object({
    benefit: benefitShape,
    validity: validityShape,
    /** What happens to accepted, not yet delivered claims when the campaign is paused or voided (A4 §12.3). */
    in_flight: z.enum(['continue', 'cancel']).default('continue'),
    /** What guards the campaign's claims beside the arbiter. */
    guards: guardsShape.optional(),
    /** What becomes of a claim held for review that nobody has decided on after so long; without it, it waits. */
    review: reviewShape.optional(),
  })
  .strict()
export type Rules = z.infer<typeof rulesShape>

/** Stock that is released over time (CL19): `initial` at the start, `amount` at `starts_at` and every `every_ms` after. */
export const dripShape = z
  .object({
    initial: z.int().min(0).max(limits.campaignQuotaMax),
    starts_at: z.iso.datetime({ offset: true }),
    every_ms: z.int().min(limits.dripEveryMinMs).max(limits.dripEveryMaxMs),
    amount: z.int().min(1).max(limits.campaignQuotaMax),
  })
  .strict()
export type Drip = z.infer<typeof dripShape>

/** At most so many acceptances a second, after a first burst. */
export const paceShape = z
  .object({
    per_second: z.int().min(1).max(limits.pacePerSecondMax),
    burst: z.int().min(1).max(limits.pacePerSecondMax),
  })
  .strict()
export type Pace = z.infer<typeof paceShape>

/**
 * What becomes of stock in one bucket while another is empty (A4 §11.2). accept: an empty bucket is sold out, what
 * is left is taken back at the end. rebalance: stock moves to the empty ones. centralise: what is left goes back to
 * the campaign and is handed out in small portions.
 */
export const tailPolicies = ['accept', 'rebalance', 'centralise'] as const
export type TailPolicy = (typeof tailPolicies)[number]

export type Availability = 'upcoming' | 'open' | 'paused' | 'sold_out' | 'ended'
/** How claims become coupons: through the log, or in the database at once (IS13). */
export type Delivery = 'stream' | 'direct'
export type AllocationMode = 'first_come' | 'drip' | 'ballot'
