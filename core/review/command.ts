import { compensationMachine } from '../../schema/states.ts'
import type { Tx } from '../claim/issue.sql.ts'
import type { RuleBook } from '../claim/rules.ts'
import { uuid7 } from '../claim/uuid7.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { statementsOf } from '../db.ts'
import type { Role } from '../http/identity.ts'
import { type Decision, decide, type Verdict } from './decide.ts'

export const reviewRoles = {
  read: ['operator', 'approver', 'support', 'finance', 'auditor'],
  decide: ['operator', 'approver'],
} as const satisfies Record<string, readonly Role[]>

export type ReviewAnswer = Decision | { request_id: string; compensation: 'PENDING' }

/**
 * An operator's word on what waits for one: a held claim is issued, rejected, or judged by the rules as they are now
 * (retry); a compensation that Redis contradicted is asked for again (retry).
 * @throws Refused CLAIM_NOT_FOUND, CONFLICT, FORBIDDEN
 */
export function decideReview(
  ctx: CommandContext,
  ruleBook: RuleBook,
  input: { requestId: string; verdict: Verdict; reason: string | undefined },
): Promise<Done<ReviewAnswer>> {
  const { requestId, verdict, reason } = input
  return execute<ReviewAnswer>(ctx, {
    action: `review.${verdict}`,
    target: requestId,
    roles: reviewRoles.decide,
    input: { reason: reason ?? null },
    reason,
    async run(orm, now) {
      const tx = statementsOf(orm)
      const nowMs = now.getTime()
      if (verdict === 'retry' && (await retryCompensation(tx, requestId, ctx.caller.actor, nowMs)))
        return {
          answer: { request_id: requestId, compensation: 'PENDING' as const },
          before: { compensation: 'REVIEW' },
          after: { compensation: 'PENDING' },
        }
      const answer = await decide(tx, ruleBook, requestId, verdict, ctx.caller.actor, nowMs)
      return { answer, before: { status: 'REVIEW' }, after: answer }
    },
  })
}

/** REVIEW → PENDING, for the compensator. @returns whether there was one. */
async function retryCompensation(tx: Tx, requestId: string, by: string, nowMs: number): Promise<boolean> {
  const to = compensationMachine.move('REVIEW', 'PENDING')
  const now = new Date(nowMs)
  const { count } = await tx`
    WITH moved AS (
      UPDATE compensations SET state = ${to}, version = version + 1, attempts = 0, updated_at = ${now}
      WHERE request_id = ${requestId} AND state = 'REVIEW'
      RETURNING user_id, request_id, campaign_id, reason
    )
    INSERT INTO ledger (user_id, ledger_id, campaign_id, request_id, kind, from_state, to_state, actor, reason, at)
    SELECT user_id, ${uuid7(nowMs)}::uuid, campaign_id, request_id, 'compensation.retried', 'REVIEW', ${to}, ${by},
      reason, ${now}
    FROM moved`
  return count > 0
}
