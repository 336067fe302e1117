import { randomUUID } from 'node:crypto'
import { count } from 'drizzle-orm'
import { type WebhookEndpoint, webhookEndpoints, webhookSecrets } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import { type CommandContext, type Done, execute } from '../command.ts'
import { targetFault } from '../notify/outbound/target.ts'
import { Refused } from '../refusal.ts'
import { type EndpointAnswer, endpointAnswer, type NewEndpoint, webhookRoles } from './shapes.ts'
import { makeSecret } from './signature.ts'

/**
 * Makes an endpoint that hears of events from now on. Its secret goes into its own table and nowhere else: neither
 * the audit log nor the kept answer has it.
 * @throws Refused INVALID_REQUEST (a URL that may not be delivered to), CONFLICT (too many endpoints), FORBIDDEN
 */
export async function createEndpoint(ctx: CommandContext, input: NewEndpoint): Promise<Done<EndpointAnswer>> {
  return execute(ctx, {
    action: 'webhook.create',
    target: '',
    roles: webhookRoles.write,
    input,
    reason: undefined,
    async run(tx, now) {
      const fault = targetFault(input.url, ctx.deps.env.outboundInsecure)
      if (fault !== undefined) throw new Refused('INVALID_REQUEST', { detail: `Correct url: ${fault}.` })
      const [there] = await tx.select({ count: count() }).from(webhookEndpoints)
      if (there!.count >= limits.webhookEndpointsMax)
        throw new Refused('CONFLICT', {
          detail: `There are ${limits.webhookEndpointsMax} endpoints already.`,
        })
      const endpoint: WebhookEndpoint = {
        endpointId: randomUUID(),
        url: new URL(input.url).href,
        description: input.description,
        eventTypes: input.event_types,
        state: 'ENABLED',
        disabledReason: null,
        failingSince: null,
        version: 1,
        createdBy: ctx.caller.actor,
        createdAt: now,
        updatedAt: now,
      }
      await tx.insert(webhookEndpoints).values(endpoint)
      await tx
        .insert(webhookSecrets)
        .values({ endpointId: endpoint.endpointId, generation: 1, secret: makeSecret() })
      const answer = endpointAnswer(endpoint)
      return { answer, target: endpoint.endpointId, after: answer }
    },
  })
}
