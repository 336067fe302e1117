import { limits } from '../schema/limits.ts'
import type { Refuse } from './refusal.ts'

/** Parts of requests that more than one route reads. */

const visibleAscii = /^[\x21-\x7e]+$/

/** The device id, `undefined` when none was sent, `null` when it is malformed. */
export function deviceIdOf(request: Request): string | undefined | null {
  const id = request.headers.get('Device-Id')
  if (id === null) return undefined
  return id.length <= limits.deviceIdCharsMax && visibleAscii.test(id) ? id : null
}

export function isIdempotencyKey(key: string | null): key is string {
  return (
    key !== null &&
    key.length >= limits.idempotencyKeyCharsMin &&
    key.length <= limits.idempotencyKeyCharsMax &&
    visibleAscii.test(key)
  )
}

export const malformed = {
  device: `Send Device-Id with 1 to ${limits.deviceIdCharsMax} visible ASCII characters.`,
  idempotencyKey: `Send Idempotency-Key with 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters.`,
  body: 'Send this request without a body.',
} as const

/**
 * The refusal of a request that has a body where none belongs. Most have a Content-Length of 0; the runtime makes
 * a stream of any other's body when it is asked for, which only those pay who sent one.
 */
export function refuseBody(request: Request, refuse: Refuse): Promise<Response | undefined> | undefined {
  const length = request.headers.get('Content-Length')
  return length === '0' || request.body === null
    ? undefined
    : refuseStream(request, request.body, length, refuse)
}

async function refuseStream(
  request: Request,
  body: ReadableStream<Uint8Array>,
  length: string | null,
  refuse: Refuse,
): Promise<Response | undefined> {
  if (length === null && (await isEmpty(body))) return undefined
  if (Number(length) > limits.requestBodyBytesMax) return refuse('PAYLOAD_TOO_LARGE')
  const type = request.headers.get('Content-Type')
  if (type !== null && !/^application\/json\s*(;|$)/i.test(type)) return refuse('UNSUPPORTED_MEDIA_TYPE')
  return refuse('INVALID_REQUEST', { detail: malformed.body })
}

/** A chunked body without a byte is none. */
async function isEmpty(body: ReadableStream<Uint8Array>): Promise<boolean> {
  const reader = body.getReader()
  try {
    while (true) {
      const { done, value } = await reader.read()
      if (done) return true
      if (value.byteLength > 0) return false
    }
  } finally {
    await reader.cancel()
  }
}
