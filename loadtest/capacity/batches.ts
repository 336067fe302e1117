import { platform } from './limits.ts'

/**
 * How long an isolate takes from one call for a bucket to the next, when there are always claims: one call is in
 * flight, and the next may go when it is over, or beside it once it is slow (edge/groupCommit.ts).
 */
function betweenCallsMs(callMs: number): number {
  const slowMs = platform.callIsSlow.amount
  return callMs <= slowMs ? callMs : Math.max(slowMs, callMs / platform.callsInFlight.amount)
}

/** Claims that arrive between one call and the next, on average. */
const arriving = (perSecond: number, callMs: number) => (perSecond * betweenCallsMs(callMs)) / 1_000

/**
 * How many claims travel in one arbitration call. Claims that arrive while a call is in flight form the next:
 * y = rate × the time between two calls, on average. When none came (e^−y of the time), the next claim goes alone as
 * it comes; so a call has y + e^−y claims: one on an idle gate, y on a busy one, and never over 64, since a full
 * one goes beside that which is in flight.
 *
 * @param perSecond claims of one isolate and bucket
 * @param callMs from the call's start to its reply
 */
export function claimsPerCall(perSecond: number, callMs: number): number {
  const y = arriving(perSecond, callMs)
  return Math.min(platform.claimsPerCall.amount, y + Math.exp(-y))
}

/**
 * Share of calls with nothing but repetitions in them, when `repeats` of all claims are: of a call that was made as a
 * claim came to a free place (e^−y of them), and of those with n claims by Poisson's chances, each repeats^n.
 */
export function repeatsOnlyShare(perSecond: number, callMs: number, repeats: number): number {
  const y = arriving(perSecond, callMs)
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
 * calls stays at the cap and their size grows, which is what lets group commit live with it. A call then lasts as long
 * as makes its lane start calls no faster than its share.
 */
export function callsOf(perSecond: number, lanes: number, callMs: number, mostPerSecond: number): Calls {
  const free = lanes * callsPerSecond(perSecond / lanes, callMs)
  if (free <= mostPerSecond)
    return { perSecond: free, claims: claimsPerCall(perSecond / lanes, callMs), ms: callMs }
  const betweenMs = (lanes * 1_000) / mostPerSecond
  return {
    perSecond: mostPerSecond,
    claims: perSecond / mostPerSecond,
    ms: betweenMs <= platform.callIsSlow.amount ? betweenMs : betweenMs * platform.callsInFlight.amount,
  }
}

/**
 * How many entries the drain takes in one transaction: two are in work (core/claim/crew.ts, crewMin), so a place is
 * free every batchMs / 2.
 */
export function entriesPerDrain(perSecond: number, batchMs: number): number {
  const y = (perSecond * batchMs) / 2_000
  return Math.min(platform.entriesPerBatch.amount, y + Math.exp(-y))
}
