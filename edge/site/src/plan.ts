/**
 * When the page may ask again. Pure: the random number is given, so a crowd's spread can be tested.
 * All durations are milliseconds; `random` is uniform in [0, 1).
 */

const retryFirstMs = 1_000
const retryGrowth = 1.6
const retryMaxMs = 15_000
/** A retry is spread over this much more of its delay, and never comes sooner than the server asked. */
const jitterShare = 0.5

const lookFirstMs = 15_000
const lookMaxMs = 120_000

const minuteMs = 60_000
/** Tokens are fetched over the last minutes, so that the service sees a slope and not a wall. */
const tokenWindowMs = 5 * minuteMs
/** And not in the last seconds: they belong to those who only now arrive, and to the check that a token may ask for. */
const tokenMarginMs = 30_000
const lateSpreadMs = 2_000

const lookWindowMs = 60_000
const lookMarginMs = 15_000

/** Delay before try number `attempt` (from 0): what the server asked or a growing back-off, plus jitter. */
export function retryDelay(attempt: number, retryAfterMs: number | undefined, random: number): number {
  const backOff = Math.min(retryFirstMs * retryGrowth ** attempt, retryMaxMs)
  const base = Math.max(retryAfterMs ?? 0, backOff)
  return Math.round(base * (1 + jitterShare * random))
}

/** Delay before the view of a paused campaign is looked at again. */
export function lookAgainDelay(attempt: number, random: number): number {
  return Math.round(Math.min(lookFirstMs * 2 ** attempt, lookMaxMs) * (1 + random))
}

/** Delay before poll number `poll` (from 0) of a claim's status, from the hint of the last answer. */
export function pollDelay(poll: number, hintMs: number, random: number): number {
  return Math.round(Math.min(hintMs * 1.3 ** poll, retryMaxMs) * (1 + jitterShare * random))
}

/** The instant at which to fetch the claim token. */
export function tokenMoment(now: number, startsAt: number, tokensFrom: number, random: number): number {
  if (now >= startsAt) return now
  const last = startsAt - tokenMarginMs
  const first = Math.max(now, tokensFrom, startsAt - tokenWindowMs)
  if (first >= last) return Math.max(first, now + random * Math.min(lateSpreadMs, (startsAt - now) / 2))
  return first + random * (last - first)
}

/** The instant of the one look at the view before the start; undefined when the present view is new enough. */
export function lookMoment(now: number, startsAt: number, random: number): number | undefined {
  if (now >= startsAt - lookWindowMs - lookMarginMs) return undefined
  return startsAt - lookMarginMs - random * (lookWindowMs - lookMarginMs)
}
