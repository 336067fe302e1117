import { buckets, campaignStock } from '../../schema/db/tables.ts'
import type { CommandContext } from '../command.ts'
import { Refused } from '../refusal.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/**
 * APPROVED → ACTIVE, with its stock: the quota stands in the ledger and, split exactly, in the buckets, before any
 * gate is primed with it.
 */
export const publishCampaign = (ctx: CommandContext, input: TransitionInput) =>
  transitAndTell(ctx, input, {
    verb: 'publish',
    from: ['APPROVED'],
    to: 'ACTIVE',
    check({ campaign }, now) {
      if (campaign.endsAt <= now)
        throw new Refused('CONFLICT', { detail: 'Its window is over: it would give no coupon. Void it.' })
    },
    async also(tx, { campaignId, quota, bucketCount }) {
      await tx.insert(campaignStock).values({ campaignId, quota, issued: 0, unallocated: 0, withdrawn: 0 })
      await tx.insert(buckets).values(
        splitQuota(quota, bucketCount).map((allocated, bucket) => ({
          campaignId,
          bucket,
          allocated,
          epoch: 1,
        })),
      )
    },
  })

/** Parts that differ by one at most and add up to the quota. */
export function splitQuota(quota: number, parts: number): number[] {
  const small = Math.floor(quota / parts)
  const larger = quota - small * parts
  return Array.from({ length: parts }, (_, part) => (part < larger ? small + 1 : small))
}
