import { and, eq, gte, inArray, sql } from 'drizzle-orm'
import { webhookDeliveries } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { Refused } from '../refusal.ts'
import { readEndpoint } from './read.ts'
import { eventIdOf, webhookRoles } from './shapes.ts'

/** One delivery, by its webhook id, whatever its state; or all that failed since an instant. */
export type ResendInput = { endpointId: string; reason: string | undefined } & (
  | { webhookId: string }
  | { failedSince: string }
)

/** The most that one command sends again: it answers how many, and can be repeated. */
const resendMax = 10_000

/**
 * Sends again what an endpoint took or failed, under the same webhook id: attempts for another day.
 * It changes nothing of the endpoint, so it needs no version of it.
 * @throws Refused NOT_FOUND, CONFLICT (the endpoint is disabled), FORBIDDEN
 */
export async function resendDeliveries(
  ctx: CommandContext,
  input: ResendInput,
): Promise<Done<{ queued: number }>> {
  const { endpointId, reason, ...asked } = input
  return execute(ctx, {
    action: 'webhook.resend',
    target: endpointId,
    roles: webhookRoles.write,
    input: { ...asked, reason: reason ?? null },
    reason,
    async run(tx, now) {
      const endpoint = await readEndpoint(tx, endpointId)
      if (endpoint.state === 'DISABLED')
        throw new Refused('CONFLICT', { detail: 'The endpoint is disabled. Enable it first.' })
      const which =
        'webhookId' in asked
          ? eq(webhookDeliveries.eventId, eventIdOf(asked.webhookId))
          : inArray(
              webhookDeliveries.eventId,
              tx
                .select({ id: webhookDeliveries.eventId })
                .from(webhookDeliveries)
                .where(
                  and(
                    eq(webhookDeliveries.endpointId, endpointId),
                    eq(webhookDeliveries.state, 'FAILED'),
                    gte(webhookDeliveries.createdAt, new Date(asked.failedSince)),
                  ),
                )
                .limit(resendMax),
            )
      const queued = await tx
        .update(webhookDeliveries)
        .set({
          state: 'PENDING',
          deliveredAt: null,
          nextAttemptAt: now,
          giveUpAt: new Date(now.getTime() + limits.deliveryGiveUpMs),
        })
        .where(and(eq(webhookDeliveries.endpointId, endpointId), which))
        .returning({ one: sql`1` })
      if (queued.length === 0 && 'webhookId' in asked)
        throw new Refused('NOT_FOUND', { detail: 'There is no such delivery, or it is no longer kept.' })
      const answer = { queued: queued.length }
      return { answer, after: { ...asked, ...answer } }
    },
  })
}
