import type { Random } from './random.ts'

/** Codes after which a client comes again with the same key, as the page does. */
const again = new Set([
  'BUSY',
  'NOT_READY',
  'PAUSED',
  'UNAVAILABLE',
  'OUTCOME_UNKNOWN',
  'RATE_LIMITED',
  'NOT_STARTED',
  'no answer',
])
/** Codes that leave open whether the claim was accepted. */
const open = new Set(['OUTCOME_UNKNOWN', 'no answer'])
/** Codes of the gate alone, which say nothing about an earlier attempt. */
const silent = new Set([...open, 'BUSY', 'NOT_READY', 'UNAVAILABLE', 'RATE_LIMITED'])

const firstWaitMs = 250
const longestWaitMs = 5_000
const growth = 1.4

export const comesAgainAfter = (code: string): boolean => again.has(code)
export const leavesOpen = (code: string): boolean => open.has(code)
export const tellsNothing = (code: string): boolean => silent.has(code)

/** When the `attempt`-th repetition is due, ms from the answer: as told, longer each time, and never all at once. */
export function waitBefore(
  attempt: number,
  { retryAfterMs, startsInMs }: { retryAfterMs?: number | undefined; startsInMs?: number | undefined },
  random: Random,
): number {
  if (startsInMs !== undefined) return Math.max(0, startsInMs) + random() * 200
  const told = Math.max(firstWaitMs, retryAfterMs ?? 1_000)
  return Math.min(longestWaitMs, told * growth ** attempt) * (1 + random() / 2)
}
