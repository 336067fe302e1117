import { buckets, campaignStock } from '../../schema/db/tables.ts'
import { openBallot } from '../ballot/open.ts'
import type { CommandContext } from '../command.ts'
import { Refused } from '../refusal.ts'
import { splitExactly } from '../stock/split.ts'
import { transitAndTell } from './gates.ts'
import type { TransitionInput } from './transition.ts'

/**
 * APPROVED → ACTIVE, with its stock: the quota stands in the ledger and, split exactly, in the buckets, before any
 * gate is primed with it. A ballot's entries take no stock: its quota stays unallocated until the draw. A direct campaign has no gates: its
 * claims take from the unallocated stock.
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
    async also(tx, { campaignId, quota, bucketCount, mode, delivery }) {
      const unallocated = mode === 'ballot' || delivery === 'direct' ? quota : 0
      await tx.insert(campaignStock).values({ campaignId, quota, issued: 0, unallocated, withdrawn: 0 })
      if (mode === 'ballot') await openBallot(tx, campaignId)
      if (delivery === 'direct') return
      await tx.insert(buckets).values(
        splitExactly(quota - unallocated, bucketCount).map((allocated, bucket) => ({
          campaignId,
          bucket,
          allocated,
          epoch: 1,
        })),
      )
    },
  })
