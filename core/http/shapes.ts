import { z } from '@hono/zod-openapi'

/** Pieces of route descriptions. */

export const problemShape = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    code: z.string().openapi({ description: 'Stable; decide by this.' }),
    request_id: z.string().openapi({ description: 'Quote it to support.' }),
    retry_after_ms: z.int().optional(),
  })
  .openapi('Problem')

export function json<T extends z.ZodType>(schema: T, description: string) {
  return { description, content: { 'application/json': { schema } } }
}

const words: Record<number, string> = {
  400: 'The request is malformed',
  401: 'No valid login',
  403: 'Not allowed to this caller',
  404: 'There is no such thing',
  409: 'The thing is in another state',
  412: 'It was changed meanwhile',
  413: 'The body is too large',
  415: 'Another content type is needed',
  422: 'The Idempotency-Key was used for something else',
  428: 'A header is missing',
  503: 'A part of the service is away',
}

/** The refusals that a route may answer with. */
export function problems(...statuses: (keyof typeof words)[]) {
  return Object.fromEntries(
    statuses.map((status) => [
      status,
      {
        description: words[status] ?? 'Refused',
        content: { 'application/problem+json': { schema: problemShape } },
      },
    ]),
  )
}

export const idempotencyHeader = z.string().openapi({
  param: { name: 'Idempotency-Key', in: 'header', required: true },
  description: 'A text of your own for this command; repeating it with the same body repeats the answer.',
})
export const ifMatchHeader = z.string().openapi({
  param: { name: 'If-Match', in: 'header', required: true },
  description: 'The ETag of the version that you saw.',
})
