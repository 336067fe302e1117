import { and, eq, isNull } from 'drizzle-orm'
import { type WebhookEndpoint, webhookEndpoints, webhookSecrets } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import { type CommandContext, type Done, execute, type Tx } from '../command.ts'
import { Refused } from '../refusal.ts'
import { type EndpointAnswer, endpointAnswer, noEndpoint, webhookRoles } from './shapes.ts'
import { makeSecret } from './signature.ts'

export interface ChangeInput {
  endpointId: string
  expectedVersion: number
  reason: string | undefined
}

interface Change {
  verb: string
  set(endpoint: WebhookEndpoint): Partial<WebhookEndpoint>
  also?(tx: Tx, endpoint: WebhookEndpoint, now: Date): Promise<void>
}

/** @throws Refused NOT_FOUND, PRECONDITION_FAILED, CONFLICT, FORBIDDEN */
async function change(
  ctx: CommandContext,
  input: ChangeInput,
  change: Change,
): Promise<Done<EndpointAnswer>> {
  const { endpointId, expectedVersion, reason } = input
  return execute(ctx, {
    action: `webhook.${change.verb}`,
    target: endpointId,
    roles: webhookRoles.write,
    input: { reason: reason ?? null },
    reason,
    async run(tx, now) {
      const [found] = await tx
        .select()
        .from(webhookEndpoints)
        .where(eq(webhookEndpoints.endpointId, endpointId))
        .for('update')
      if (found === undefined) throw noEndpoint()
      if (found.version !== expectedVersion) throw new Refused('PRECONDITION_FAILED')
      const [changed] = await tx
        .update(webhookEndpoints)
        .set({ ...change.set(found), version: found.version + 1, updatedAt: now })
        .where(eq(webhookEndpoints.endpointId, endpointId))
        .returning()
      await change.also?.(tx, found, now)
      const answer = endpointAnswer(changed!)
      return { answer, before: endpointAnswer(found), after: answer }
    },
  })
}

/** What is due waits until it is enabled again; what happens meanwhile it never hears of. */
export async function disableEndpoint(
  ctx: CommandContext,
  input: ChangeInput,
): Promise<Done<EndpointAnswer>> {
  return change(ctx, input, {
    verb: 'disable',
    set({ state }) {
      if (state === 'DISABLED') throw new Refused('CONFLICT', { detail: 'It is disabled already.' })
      return { state: 'DISABLED', disabledReason: 'operator' }
    },
  })
}

/** It starts with a clean record: what it failed before does not count. */
export async function enableEndpoint(ctx: CommandContext, input: ChangeInput): Promise<Done<EndpointAnswer>> {
  return change(ctx, input, {
    verb: 'enable',
    set({ state }) {
      if (state === 'ENABLED') throw new Refused('CONFLICT', { detail: 'It is enabled already.' })
      return { state: 'ENABLED', disabledReason: null, failingSince: null }
    },
  })
}

/** A new secret; the one before signs beside it for a day, so that the receiver can change over in peace. */
export async function rotateSecret(ctx: CommandContext, input: ChangeInput): Promise<Done<EndpointAnswer>> {
  return change(ctx, input, {
    verb: 'rotate-secret',
    set: () => ({}),
    async also(tx, { endpointId, version }, now) {
      const expiresAt = new Date(now.getTime() + limits.webhookSecretOverlapMs)
      await tx
        .update(webhookSecrets)
        .set({ expiresAt })
        .where(and(eq(webhookSecrets.endpointId, endpointId), isNull(webhookSecrets.expiresAt)))
      await tx.insert(webhookSecrets).values({ endpointId, generation: version + 1, secret: makeSecret() })
    },
  })
}
