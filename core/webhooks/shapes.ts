import { z } from '@hono/zod-openapi'
import type { WebhookEndpoint } from '../../schema/db/tables.ts'
import { limits } from '../../schema/limits.ts'
import { lineOf } from '../campaigns/shapes.ts'
import type { Role } from '../http/identity.ts'
import { Refused } from '../refusal.ts'

export const webhookRoles = {
  write: ['operator'],
  read: ['operator', 'support', 'auditor'],
} as const satisfies Record<string, readonly Role[]>

const instant = z.iso.datetime()

export const newEndpointShape = z
  .object({
    url: z
      .string()
      .max(limits.webhookUrlCharsMax)
      .openapi({ example: 'https://shop.example/hooks', description: 'https, at a public address.' }),
    description: lineOf(200).default(''),
    event_types: z
      .array(z.string().regex(/^[a-z]{1,30}\.[a-z_]{1,30}$/, 'give types as claim.delivered'))
      .max(50)
      .default([])
      .openapi({ description: 'Only these types; empty: all.', example: ['claim.delivered'] }),
  })
  .strict()
export type NewEndpoint = z.output<typeof newEndpointShape>

export const endpointShape = z
  .object({
    id: z.string(),
    url: z.string(),
    description: z.string(),
    event_types: z.array(z.string()),
    state: z.enum(['ENABLED', 'DISABLED']),
    disabled_reason: z.enum(['operator', 'failing', 'gone']).optional(),
    failing_since: instant.optional().openapi({ description: 'Nothing was taken since.' }),
    version: z.int(),
    created_at: instant,
    updated_at: instant,
  })
  .openapi('WebhookEndpoint')
export type EndpointAnswer = z.infer<typeof endpointShape>

export const endpointWithSecretShape = endpointShape
  .extend({
    secret: z.string().optional().openapi({
      description:
        'Verifies the signatures (Standard Webhooks). Shown only here, while it is the present one.',
    }),
  })
  .openapi('WebhookEndpointWithSecret')

export function endpointAnswer(row: WebhookEndpoint): EndpointAnswer {
  return {
    id: row.endpointId,
    url: row.url,
    description: row.description,
    event_types: row.eventTypes,
    state: row.state,
    ...(row.disabledReason === null ? {} : { disabled_reason: row.disabledReason }),
    ...(row.failingSince === null ? {} : { failing_since: row.failingSince.toISOString() }),
    version: row.version,
    created_at: row.createdAt.toISOString(),
    updated_at: row.updatedAt.toISOString(),
  }
}

/** `webhook-id` of an event: the same at each endpoint and each attempt. */
export const messageIdOf = (eventId: number) => `evt_${eventId}`

/** @throws Refused NOT_FOUND for what is no message id of ours. */
export function eventIdOf(messageId: string): number {
  const match = /^evt_(\d{1,15})$/.exec(messageId)
  if (match === null)
    throw new Refused('NOT_FOUND', { detail: 'There is no such delivery. Check its webhook id.' })
  return Number(match[1])
}

const uuidForm = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** @throws Refused NOT_FOUND */
export function endpointIdOf(text: string): string {
  if (!uuidForm.test(text)) throw noEndpoint()
  return text
}

export const noEndpoint = () =>
  new Refused('NOT_FOUND', { detail: 'There is no such webhook endpoint. Check its id.' })
