import { limits } from '../../../schema/limits.ts'

/**
 * When to try again after the `attempts`th failed attempt, in ms since the epoch: five seconds later, then three times
 * as long each time, up to six hours, a part of it by chance so that what failed together does not come back together;
 * not before the receiver asked. Undefined: never, its time is over.
 * The last attempt is planned for the end itself, so that the whole day is used.
 */
export function nextAttempt(
  attempts: number,
  {
    nowMs,
    giveUpAtMs,
    retryAfterMs = 0,
  }: { nowMs: number; giveUpAtMs: number; retryAfterMs?: number | undefined },
  random: () => number = Math.random,
): number | undefined {
  if (nowMs >= giveUpAtMs) return undefined
  const most = Math.min(
    limits.deliveryRetryMaxMs,
    limits.deliveryRetryFirstMs * limits.deliveryRetryFactor ** Math.min(attempts - 1, 20),
  )
  const wait = Math.max(most * (0.5 + random() / 2), retryAfterMs)
  return Math.min(nowMs + wait, giveUpAtMs)
}
