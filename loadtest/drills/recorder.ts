import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { type Answer, type HistoryEvent, type Operation, toLines } from '../audit/history.ts'
import type { Reply } from '../traffic/client.ts'
import type { Shopper } from '../traffic/shoppers.ts'

/** ms since the epoch, by a clock that nothing steps. */
export const steadyNowMs = (): number =>
  Math.round((performance.timeOrigin + performance.now()) * 1000) / 1000

/** Keeps a drill's history (loadtest/audit/history.ts). */
export class Recorder {
  readonly events: HistoryEvent[] = []

  opened(campaignId: string, startsMs: number, endsMs: number): void {
    this.events.push({ type: 'campaign', campaign_id: campaignId, starts_ms: startsMs, ends_ms: endsMs })
  }

  /** An operation begins. @returns what to call with its answer */
  begin(
    process: string,
    shopper: Shopper,
    operation: Operation['operation'] = 'claim',
  ): (answer: Answer) => void {
    const event: Operation = {
      ...{ type: 'operation', process, user: shopper.userId, operation, key: shopper.idempotencyKey },
      token: createHash('sha256').update(shopper.claimToken).digest('base64url').slice(0, 12),
      invoked_ms: steadyNowMs(),
      completed_ms: null,
      answer: { outcome: 'unknown', why: 'the run ended' },
    }
    this.events.push(event)
    return (answer) => {
      event.completed_ms = steadyNowMs()
      event.answer = answer
    }
  }

  /** @param forgets Redis may have forgotten what it had acknowledged. */
  fault(what: string, { forgets = false }: { forgets?: boolean } = {}): void {
    this.events.push({ type: 'fault', at_ms: steadyNowMs(), what, ...(forgets ? { forgets } : {}) })
  }

  async command<T>(verb: string, work: () => Promise<T>): Promise<T> {
    const invoked_ms = steadyNowMs()
    const result = await work()
    this.events.push({ type: 'command', verb, invoked_ms, completed_ms: steadyNowMs() })
    return result
  }

  write(file: string): void {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, toLines(this.events))
  }
}

/** What the HTTP answer to a claim says, in the history's words. */
export function answerOf(reply: Reply): Answer {
  const { status, head } = reply
  const body = bodyOf(reply)
  if (status === 202) {
    const { request_id, accepted_at } = body as { request_id: string; accepted_at: string }
    const replayed = /\r\nidempotency-replayed: *true/i.test(head)
    return { outcome: 'accepted', request_id, accepted_at_ms: Date.parse(accepted_at), replayed }
  }
  const code = typeof body['code'] === 'string' ? body['code'] : undefined
  if (code === undefined || code === 'OUTCOME_UNKNOWN')
    return { outcome: 'unknown', why: code ?? `HTTP ${status}` }
  return { outcome: 'refused', code }
}

/** Nothing, where the body is not JSON. */
export function bodyOf(reply: Reply): Record<string, unknown> {
  try {
    return JSON.parse(reply.body)
  } catch {
    return {}
  }
}
