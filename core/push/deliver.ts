import { Counter } from 'prom-client'
import { causeOf } from '../claim/failures.ts'
import type { Deps, Running } from '../deps.ts'
import { startCourier } from '../notify/outbound/courier.ts'
import { type Answer, makePoster, type Poster } from '../notify/outbound/post.ts'
import { nextAttempt } from '../notify/outbound/schedule.ts'
import { type Due, forgetDelivery, forgetSubscription, postpone, sweepExpired, takeDue } from './due.ts'
import { encrypt } from './encrypt.ts'
import { makeVapid, type Vapid } from './vapid.ts'

export type PushDeps = Pick<Deps, 'db' | 'log' | 'clock' | 'metrics' | 'env'>

/**
 * Tells browsers of claims' results by Web Push, also when no page is open (CL16): retried for a day; a subscription
 * of which the push service says that it is no more is removed. Without VAPID keys it forgets what is due.
 */
export function startPushes(deps: PushDeps, options: { poster?: Poster } = {}): Running {
  const { vapid: settings } = deps.env
  const vapid = settings && makeVapid(settings.privateKey, settings.subject)
  const poster = options.poster ?? makePoster({ insecure: deps.env.outboundInsecure, clock: deps.clock })
  const log = deps.log.child({ part: 'pushes' })
  const attempts = new Counter({
    name: 'tidegate_push_attempts_total',
    help: 'Attempts to deliver a Web Push, by what came of them.',
    labelNames: ['outcome'] as const,
    registers: [deps.metrics],
  })

  async function fail(due: Due, why: string, retryAfterMs: number | undefined): Promise<void> {
    const giveUpAtMs = due.give_up_at.getTime()
    const next = nextAttempt(due.attempt, { nowMs: deps.clock(), giveUpAtMs, retryAfterMs })
    attempts.inc({ outcome: next === undefined ? 'gave_up' : 'failed' })
    if (next !== undefined) return postpone(deps, due, next)
    log.warn({ event_id: due.event_id, why }, 'a push was given up')
    await forgetDelivery(deps, due)
  }

  async function deliver(due: Due): Promise<void> {
    if (vapid === undefined || due.endpoint === null) return forgetDelivery(deps, due)
    const answer = await push(poster, vapid, due, deps.clock())
    if (answer instanceof Error) return fail(due, causeOf(answer), undefined)
    const { status, retryAfterMs } = answer
    if (status >= 200 && status < 300) {
      attempts.inc({ outcome: 'delivered' })
      return forgetDelivery(deps, due)
    }
    if (status === 404 || status === 410) {
      attempts.inc({ outcome: 'unsubscribed' })
      return forgetSubscription(deps, due)
    }
    return fail(due, `it answered ${status}`, retryAfterMs)
  }

  const courier = startCourier<Due>(deps, {
    name: 'pushes',
    take: (free) => takeDue(deps, free),
    keyOf: ({ subscription_id }) => subscription_id,
    sweep: () => sweepExpired(deps),
    deliver,
  })
  return {
    async stop() {
      await courier.stop()
      poster.close()
    },
  }
}

async function push(poster: Poster, vapid: Vapid, due: Due, nowMs: number): Promise<Answer | Error> {
  const receiver = {
    p256dh: Buffer.from(due.p256dh!, 'base64url'),
    auth: Buffer.from(due.auth!, 'base64url'),
  }
  const headers = {
    Authorization: vapid.authorization(due.endpoint!, nowMs),
    'Content-Encoding': 'aes128gcm',
    'Content-Type': 'application/octet-stream',
    // For a device that is off now: the push service keeps it as long as we would have tried.
    TTL: String(Math.max(0, Math.floor((due.give_up_at.getTime() - nowMs) / 1000))),
    // Sent again because its answer got lost, it replaces itself (RFC 8030 §5.4).
    Topic: `event-${due.event_id}`,
    Urgency: 'normal',
  }
  try {
    return await poster.post(due.endpoint!, headers, encrypt(Buffer.from(due.body), receiver))
  } catch (error) {
    // Also a message that can't be encrypted: it is given up like one that nobody takes.
    return error instanceof Error ? error : new Error(String(error))
  }
}
