import { Counter } from 'prom-client'
import { limits } from '../../schema/limits.ts'
import type { Deps, Running } from '../deps.ts'
import { startCourier } from '../notify/outbound/courier.ts'
import { type Answer, makePoster, type Poster, PostFailed } from '../notify/outbound/post.ts'
import { nextAttempt } from '../notify/outbound/schedule.ts'
import {
  type Attempted,
  type Due,
  disableByItself,
  recordDelivered,
  recordFailed,
  sweepDeliveries,
  takeDue,
} from './due.ts'
import { messageIdOf } from './shapes.ts'
import { signedHeaders } from './signature.ts'

export type WebhookDeps = Pick<Deps, 'db' | 'log' | 'clock' | 'metrics' | 'env'>

/**
 * Tells shops by Standard Webhooks: at least once, the same `webhook-id` and bytes at each attempt, retried for a day,
 * and an endpoint that takes nothing for two is disabled (CL16).
 */
export function startWebhooks(deps: WebhookDeps, options: { poster?: Poster } = {}): Running {
  const poster = options.poster ?? makePoster({ insecure: deps.env.outboundInsecure, clock: deps.clock })
  const log = deps.log.child({ part: 'webhooks' })
  const attempts = new Counter({
    name: 'tidegate_webhook_attempts_total',
    help: 'Attempts to deliver a webhook, by what came of them.',
    labelNames: ['outcome'] as const,
    registers: [deps.metrics],
  })
  const disabled = new Counter({
    name: 'tidegate_webhook_endpoints_disabled_total',
    help: 'Webhook endpoints disabled because they took nothing for too long, or said that they are gone.',
    registers: [deps.metrics],
  })

  async function disable(due: Due, reason: 'failing' | 'gone'): Promise<void> {
    if (!(await disableByItself(deps, due.endpoint_id, reason))) return
    disabled.inc()
    log.error({ endpoint_id: due.endpoint_id, reason }, 'a webhook endpoint was disabled')
  }

  async function fail(attempted: Attempted, error: string, retryAfterMs: number | undefined): Promise<void> {
    const { due } = attempted
    const nowMs = deps.clock()
    const next = nextAttempt(due.attempt, { nowMs, giveUpAtMs: due.give_up_at.getTime(), retryAfterMs })
    const failingSince = await recordFailed(deps, attempted, error, next)
    attempts.inc({ outcome: next === undefined ? 'gave_up' : 'failed' })
    if (attempted.status === 410) await disable(due, 'gone')
    // Only with a delivery that was tried for a whole day: one failure after quiet days proves nothing.
    else if (next === undefined && nowMs - failingSince.getTime() >= limits.webhookDisableAfterMs)
      await disable(due, 'failing')
  }

  const courier = startCourier<Due>(deps, {
    name: 'webhooks',
    take: (free, busy) => takeDue(deps, free, busy),
    keyOf: ({ endpoint_id }) => endpoint_id,
    sweep: () => sweepDeliveries(deps),
    async deliver(due) {
      const at = new Date(deps.clock())
      const began = performance.now()
      const answer = await attempt(poster, due, at.getTime())
      const durationMs = Math.round(performance.now() - began)
      if (answer instanceof PostFailed)
        return fail({ due, at, durationMs, status: null }, answer.message, undefined)
      const attempted = { due, at, durationMs, status: answer.status }
      const error = errorOf(answer)
      if (error !== undefined) return fail(attempted, error, answer.retryAfterMs)
      await recordDelivered(deps, attempted)
      attempts.inc({ outcome: 'delivered' })
    },
  })
  return {
    async stop() {
      await courier.stop()
      poster.close()
    },
  }
}

async function attempt(poster: Poster, due: Due, nowMs: number): Promise<Answer | PostFailed> {
  const headers = {
    'Content-Type': 'application/json',
    'User-Agent': 'Tidegate-Webhooks/1',
    ...signedHeaders(due.secrets, { id: messageIdOf(due.event_id), nowMs, body: due.body }),
  }
  try {
    return await poster.post(due.url, headers, due.body)
  } catch (error) {
    if (error instanceof PostFailed) return error
    throw error
  }
}

/** Undefined for an answer that takes it. */
function errorOf({ status }: Answer): string | undefined {
  if (status >= 200 && status < 300) return undefined
  if (status >= 300 && status < 400) return 'It answered with a redirect, which is not followed.'
  return `It answered ${status}.`
}
