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

/**
 * Share of calls with nothing but repetitions in them, when `repeats` of all claims are: of a call that was made as a
 * claim came to a free place (e^−y of them), and of those with n claims by Poisson's chances, each repeats^n.
 */
export function repeatsOnlyShare(perSecond: number, callMs: number, repeats: number): number {
  const y = (perSecond * callMs) / 1_000 / platform.callsInFlight.amount
  return Math.exp(-y) * (repeats - 1) + Math.exp(y * (repeats - 1))
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

export interface Calls {
  readonly perSecond: number
  readonly claims: number
  /** How long one takes. */
  readonly ms: number
}

/**
 * The calls of all lanes (isolate × bucket) together, when the databases take at most `mostPerSecond`. Commands over
 * a database's cap wait, so calls last longer, and the claims that arrive meanwhile travel together: the number of
 * calls stays at the cap and their size grows, which is what lets group commit live with it. All places being taken
 * then, a call's duration follows from Little's law.
 */
export function callsOf(perSecond: number, lanes: number, callMs: number, mostPerSecond: number): Calls {
  const free = lanes * callsPerSecond(perSecond / lanes, callMs)
  if (free <= mostPerSecond)
    return { perSecond: free, claims: claimsPerCall(perSecond / lanes, callMs), ms: callMs }
  const inFlight = lanes * platform.callsInFlight.amount
  return {
    perSecond: mostPerSecond,
    claims: perSecond / mostPerSecond,
    ms: (inFlight * 1_000) / mostPerSecond,
  }
}
