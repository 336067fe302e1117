import { createHmac, randomBytes } from 'node:crypto'

/** Signatures of the Standard Webhooks specification 1.0, symmetric scheme `v1`. */

const prefix = 'whsec_'

export function makeSecret(): string {
  return prefix + randomBytes(32).toString('base64')
}

export interface SignedHeaders {
  'webhook-id': string
  'webhook-timestamp': string
  'webhook-signature': string
}

/**
 * The headers of one attempt. While a secret is being replaced each valid one signs, and the receiver accepts any.
 * @param nowMs of this attempt: the receiver refuses what is old.
 */
export function signedHeaders(
  secrets: readonly string[],
  { id, nowMs, body }: { id: string; nowMs: number; body: string },
): SignedHeaders {
  const timestamp = String(Math.floor(nowMs / 1000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  }
}
