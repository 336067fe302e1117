import { settle } from '../../lua/stock.ts'
import { assertNever } from '../../schema/assert.ts'
import type { Deps } from '../deps.ts'
import { findUntold, markTold, type UntoldReview } from './review.sql.ts'

export type TellDeps = Pick<Deps, 'db' | 'runner'>

const batchMax = 256

/**
 * Tells the users' records in Redis what was decided in the ledger, and then closes the reviews. A crash in between
 * only means telling it again, which changes nothing.
 * @param requestId only this one; else as many as one round takes.
 * @returns how many were told. @throws when Redis or Postgres does not answer.
 */
export async function tellDecided({ db, runner }: TellDeps, requestId?: string): Promise<number> {
  const untold = await db.admin.transaction((tx) => findUntold(tx, batchMax, requestId))
  const byBucket = Map.groupBy(untold, ({ campaign_id, bucket }) => `${campaign_id}:${bucket}`)
  for (const some of byBucket.values()) {
    const { campaign_id: campaignId, bucket } = some[0]!
    const marks = some.map((review) => ({
      userId: review.user_id,
      requestId: review.request_id,
      state: letterOf(review),
    }))
    await settle(runner, { campaignId, bucket }, [], marks)
    await db.admin.transaction((tx) => markTold(tx, some))
  }
  return untold.length
}

function letterOf({ status }: UntoldReview): 'D' | 'X' {
  switch (status) {
    case 'DELIVERED':
      return 'D'
    case 'REJECTED':
      return 'X'
    case 'ACCEPTED':
    case 'PROCESSING':
    case 'UNKNOWN':
    case 'REVIEW':
      throw new Error(`a decided review’s claim is ${status}`)
    default:
      return assertNever(status, 'claim state')
  }
}
