import { platform } from './limits.ts'

/**
 * How many claims travel in one arbitration call. An isolate has two calls in flight for a bucket; claims that arrive
 * meanwhile form the next. With calls of `callMs`, and so a place free every callMs / 2, arrivals at random bring
 * y = rate × callMs / 2 claims between two places on average. When none came (e^−y of the time), the next claim goes
 * alone as it comes; so a call has y + e^−y claims: one on an idle gate, y on a busy one, and never over 64.
 *
 * @param perSecond claims of one isolate and bucket
 * @param callMs from the call's start to its reply
 */
export function claimsPerCall(perSecond: number, callMs: number): number {
  const y = (perSecond * callMs) / 1_000 / platform.callsInFlight.amount
  return Math.min(platform.claimsPerCall.amount, y + Math.exp(-y))
}

/** Calls a second of one isolate and bucket; more claims never make fewer. */
export function callsPerSecond(perSecond: number, callMs: number): number {
  return perSecond === 0 ? 0 : perSecond / claimsPerCall(perSecond, callMs)
}

/** The duration of a call that explains a batch seen at this rate: the inverse of `claimsPerCall`. */
export function callMsOf(perSecond: number, claims: number): number {
  let [low, high] = [0, 10_000]
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2
    if (claimsPerCall(perSecond, middle) < claims) low = middle
    else high = middle
  }
  return low
}
