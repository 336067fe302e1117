import type { HttpClient, Reply } from '../traffic/client.ts'
import { comesAgainAfter } from './patience.ts'
import type { Tally } from './tally.ts'

/** An answer of the gate, as the crowd takes it. */
export interface Answer {
  /** Of the decision or refusal; `TOKEN_ISSUED` of a claim token; `no answer` when the connection broke. */
  code: string
  /** Of a refusal or a token; empty otherwise. */
  body: Record<string, unknown>
  reply: Reply | undefined
}

/** Sends a request. What no client should get is noted. */
export async function ask(client: HttpClient, tally: Tally, request: Buffer): Promise<Answer> {
  let reply: Reply
  try {
    reply = await client.send(request)
  } catch {
    return { code: 'no answer', body: {}, reply: undefined }
  }
  if (reply.status === 202) {
    const code = /\r\nidempotency-replayed: *true/i.test(reply.head) ? 'REPLAYED' : 'ACCEPTED'
    // Of these only the text is used: thousands of bodies need not be read twice.
    return { code, body: {}, reply }
  }
  const body = parse(reply.body)
  if (reply.status === 201) return { code: 'TOKEN_ISSUED', body, reply }
  const code = typeof body['code'] === 'string' ? body['code'] : `HTTP ${reply.status}`
  if (body['code'] === undefined || (reply.status >= 500 && reply.status !== 503))
    tally.wrong.add(`${reply.status} ${reply.body.slice(0, 160)}`)
  return { code, body, reply }
}

/** The name of the latencies that an answer belongs to; `as` for refusals. */
export function latencyOf(code: string, as: string): string {
  if (code === 'ACCEPTED') return 'accept'
  if (code === 'REPLAYED') return 'replay'
  return comesAgainAfter(code) ? 'retry later' : as
}

/** How long the gate says it took, and how much of that it waited for the arbiter, where it was asked to say so. */
export function noteTiming(tally: Tally, { head }: Reply): void {
  const timing = /\r\nserver-timing: ([^\r]*)/i.exec(head)?.[1]
  if (timing === undefined) return
  for (const [, name, ms] of timing.matchAll(/(\w+);dur=([\d.]+)/g))
    tally.time(name === 'total' ? 'in the gate' : 'at the arbiter', Number(ms))
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return {}
  }
}
