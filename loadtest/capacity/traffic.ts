/** What is expected to come, as an operator can say it. Shares are of requests unless they say otherwise. */
export interface Traffic {
  /** Claims a second at the peak of the opening, all kinds together. */
  readonly peakPerSecond: number
  /** How long the peak lasts, and so the traffic after everything is sold out. */
  readonly peakSeconds: number
  readonly quota: number
  /** People who fetch a claim token before the opening. */
  readonly users: number
  /** For how long before the opening tokens are fetched (schema/limits.ts: at most 10 minutes). */
  readonly tokenSeconds: number
  /** Repetitions of an accepted claim under its key: they reach the arbiter and take nothing. */
  readonly repeatShare: number
  /** Refused by the gate's limits or for a bad token: they never reach the arbiter. */
  readonly botShare: number
  /** Of those accepted: who asks for the status until the coupon is there, and who listens to a stream. */
  readonly pollerShare: number
  readonly listenerShare: number
  readonly pollEveryMs: number
  /** Within which the last acceptance is to become a coupon; the lease runs out at 30 s (schema/limits.ts). */
  readonly deliverSeconds: number
  /** Places in which the gate runs at the least: each has isolates of its own, and so batches of its own. */
  readonly locations: number
  /** From an isolate to its Redis and back. */
  readonly redisRttMs: number
  /** No part is planned to be busier than this. */
  readonly utilisation: number
}

export const usual: Omit<Traffic, 'peakPerSecond' | 'quota' | 'users'> = {
  peakSeconds: 60,
  tokenSeconds: 300,
  repeatShare: 0.2,
  botShare: 0.1,
  pollerShare: 0.5,
  listenerShare: 0.5,
  pollEveryMs: 1_000,
  deliverSeconds: 20,
  locations: 4,
  redisRttMs: 5,
  utilisation: 0.7,
}

/** @throws RangeError with a sentence when the numbers can't be a campaign's. */
export function checkTraffic(traffic: Traffic): void {
  for (const [name, value] of Object.entries(traffic))
    if (!Number.isFinite(value) || value < 0) throw new RangeError(`${name} must be a number of 0 or more`)
  const { repeatShare, botShare, pollerShare, listenerShare, utilisation } = traffic
  if (repeatShare + botShare >= 1)
    throw new RangeError('repeats and bots leave no first claims: their shares must add up to less than 1')
  if (pollerShare > 1 || listenerShare > 1) throw new RangeError('shares are between 0 and 1')
  if (utilisation <= 0 || utilisation > 1) throw new RangeError('utilisation is above 0 and at most 1')
  for (const name of ['peakPerSecond', 'quota', 'pollEveryMs', 'deliverSeconds', 'tokenSeconds'] as const)
    if (traffic[name] <= 0) throw new RangeError(`${name} must be above 0`)
}
