import { ArbiterError, type ScriptRunner } from '../lua/runner.ts'
import { inspect } from '../lua/stock.ts'
import type { RecordState } from '../schema/acceptance.ts'
import { assertNever } from '../schema/assert.ts'
import type { Ticket } from '../schema/tokens.ts'
import { Away } from './away.ts'
import { bounds } from './bounds.ts'
import type { ReadGuard } from './guards/readGuard.ts'
import { type Lifetime, within } from './lifetime.ts'
import { describe, type Log } from './log.ts'

export interface RecordedParts {
  readonly runner: ScriptRunner
  readonly guard: ReadGuard
  readonly log: Log
}

export type RecordedStatus = 'PROCESSING' | 'REVIEW'

/**
 * What a claim's record in Redis lets us say of it while the ledger can't be asked. Never rejects: without a record,
 * or an answer, the ticket alone still proves the acceptance. Who asks too often is told so much without asking Redis.
 */
export async function recordedStatus(
  { runner, guard, log }: RecordedParts,
  request: Request,
  lifetime: Lifetime,
  ticket: Ticket,
): Promise<RecordedStatus> {
  const { campaignId, bucket, requestId, userId } = ticket
  if (guard.admit(request, userId, lifetime) !== undefined) return 'PROCESSING'
  try {
    const look = inspect(runner, { campaignId, bucket }, userId)
    const records = await within(look, bounds.recordedStatusMs, 'redis: a claim’s record')
    const record = records?.find((one) => one.requestId === requestId)
    return record === undefined ? 'PROCESSING' : statusOf(record.state)
  } catch (error) {
    if (!(error instanceof Away) && !(error instanceof ArbiterError)) log('failed', describe(error))
    else log('away', describe(error))
    return 'PROCESSING'
  }
}

/**
 * Only words that are not final, so that the client asks again. A final one ends its asking, and must carry a coupon
 * or a reason, which the ledger alone has. Nor is Redis certain: a ledger that was set back decides a claim anew, a
 * replica that took over can be behind.
 */
function statusOf(state: RecordState): RecordedStatus {
  switch (state) {
    case 'A':
    case 'B':
    case 'D':
    case 'X':
    case 'R':
      return 'PROCESSING'
    case 'V':
      return 'REVIEW'
    default:
      return assertNever(state, 'state')
  }
}
