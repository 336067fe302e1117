import { type ClaimArgs, type ClaimReply, claim, type Verdict } from '../lua/claim.ts'
import type { Bucket } from '../lua/keys.ts'
import { ArbiterError, type ScriptRunner } from '../lua/runner.ts'
import { limits } from '../schema/limits.ts'
import { arbiterCallEndsMs } from './arbiterRunner.ts'
import { bounds } from './bounds.ts'
import { CircuitOpen } from './breaker.ts'
import type { Lifetime } from './lifetime.ts'
import { describe, type Log } from './log.ts'

/** The arbiter's answer to one claim. */
export interface Decided {
  readonly kind: 'decided'
  readonly verdict: Verdict
  readonly reply: ClaimReply
}

/** What became of one claim. */
export type Outcome =
  | Decided
  /** Refused without the arbiter, by what it said a moment ago. */
  | { readonly kind: 'refused'; readonly refusal: 'SOLD_OUT' }
  /** Nothing was decided, and nothing of this claim is under way. */
  | { readonly kind: 'busy'; readonly retryAfterMs?: number | undefined }
  /** The arbiter may have decided it, or may still. */
  | { readonly kind: 'unknown' }

export interface GroupCommitOptions {
  readonly runner: ScriptRunner
  /** What a call asks the arbiter: to decide claims, or to record a ballot's entries. */
  readonly arbitrate?: typeof claim
  /** Told of each reply, once a call, with the instant at which the call was started. */
  onReply?(bucket: Bucket, reply: ClaimReply, startedAtMs: number, lifetime: Lifetime): void
  readonly log: Log
  clock(): number
}

const busy: Outcome = { kind: 'busy' }
const unknown: Outcome = { kind: 'unknown' }

/**
 * Gathers the claims of an isolate into arbitration calls (DESIGN §4, CL11). Per bucket one call is in flight, and
 * what arrives meanwhile forms the next; an idle gate adds no delay. A second goes beside it when it is full, or when
 * the first takes long: sooner, it would only split a batch in two, which costs Redis and the isolate twice.
 *
 * A call is made by the request of one of the claims (its leader) and answers those of many. When it ends, it wakes
 * the longest waiting claim to lead the next: the runtime limits how long and how much one request may call.
 * A wake-up is only a hint, and whoever runs first, the woken or a new arrival, takes the free place. The woken
 * one's request may have died with its client; then the one that woke it leads once more, a moment later. (Keeping
 * every claim alive by waitUntil instead costs each a tenth of its time.)
 */
export class GroupCommit {
  readonly #options: GroupCommitOptions
  /** By campaign, then bucket: no text is made to find one. */
  readonly #lanes = new Map<string, Map<number, Lane>>()
  /** Since the isolate began: arbitration calls started, and the claims in them. */
  readonly started = { calls: 0, claims: 0 }

  constructor(options: GroupCommitOptions) {
    this.#options = options
  }

  /** Never rejects. Ends within `claimDeadlineMs`. */
  decide(bucket: Bucket, args: ClaimArgs, lifetime: Lifetime): Promise<Outcome> {
    const lane = this.#laneOf(bucket)
    if (lane.waiting.length >= limits.claimsWaitingMax) return Promise.resolve(busy)
    const waiter = new Waiter(args)
    lane.waiting.push(waiter)
    return this.#follow(lane, waiter, lifetime)
  }

  #laneOf({ campaignId, bucket }: Bucket): Lane {
    let lanes = this.#lanes.get(campaignId)
    if (lanes === undefined) {
      lanes = new Map()
      this.#lanes.set(campaignId, lanes)
    }
    let lane = lanes.get(bucket)
    if (lane === undefined) {
      lane = { bucket: { campaignId, bucket }, waiting: [], calls: new Set() }
      lanes.set(bucket, lane)
    }
    return lane
  }

  #forget({ bucket: { campaignId, bucket } }: Lane): void {
    const lanes = this.#lanes.get(campaignId)
    lanes?.delete(bucket)
    if (lanes?.size === 0) this.#lanes.delete(campaignId)
  }

  async #follow(lane: Lane, waiter: Waiter, lifetime: Lifetime): Promise<Outcome> {
    // Own timer in the claim's own request: see `within` in lifetime.ts. It is not cleared: it goes with its request,
    // says nothing to a claim that has its outcome, and clearing costs as much as setting it.
    setTimeout(() => giveUp(lane, waiter), limits.claimDeadlineMs)
    while (waiter.outcome === undefined) {
      this.#lead(lane, lifetime)
      await waiter.woken()
    }
    return waiter.outcome
  }

  /** Starts a call for the longest waiting claims, if there is a place for it. */
  #lead(lane: Lane, lifetime: Lifetime): void {
    if (lane.waiting.length === 0 || !this.#hasPlace(lane)) return
    const claims = lane.waiting.splice(0, limits.claimsPerCallMax)
    const call: Call = { claims, startedAtMs: this.#options.clock() }
    lane.calls.add(call)
    this.started.calls++
    this.started.claims += claims.length
    // Also when the leader's client leaves: the call is other claims' too.
    lifetime.waitUntil(this.#call(lane, call, lifetime).then(() => this.#handOn(lane, lifetime)))
  }

  #hasPlace({ waiting, calls }: Lane): boolean {
    const [oldest] = calls
    if (oldest === undefined) return true
    const ageMs = this.#options.clock() - oldest.startedAtMs
    if (calls.size < limits.callsInFlightMax)
      return waiting.length >= limits.claimsPerCallMax || ageMs >= bounds.callIsSlowMs
    if (ageMs < arbiterCallEndsMs) return false
    calls.delete(oldest)
    this.#options.log('arbitration_call_lost', { claims: oldest.claims.length })
    return true
  }

  async #call(lane: Lane, call: Call, lifetime: Lifetime): Promise<void> {
    const { claims } = call
    try {
      const args = claims.map((waiter) => waiter.args)
      const { runner, arbitrate = claim } = this.#options
      const reply = await arbitrate(runner, lane.bucket, args)
      claims.forEach((waiter, i) => {
        waiter.settle({ kind: 'decided', verdict: reply.verdicts[i]!, reply })
      })
      this.#options.onReply?.(lane.bucket, reply, call.startedAtMs, lifetime)
    } catch (error) {
      const outcome = this.#failed(error)
      for (const waiter of claims) waiter.settle(outcome)
    }
    lane.calls.delete(call)
  }

  async #handOn(lane: Lane, lifetime: Lifetime): Promise<void> {
    const next = lane.waiting[0]
    if (next === undefined) {
      if (lane.calls.size === 0) this.#forget(lane)
      return
    }
    next.wake()
    await new Promise((resolve) => setTimeout(resolve, bounds.handOnMs))
    if (lane.waiting[0] === next) this.#lead(lane, lifetime)
  }

  /** One failure answers all claims of its call; what it was is for us alone. */
  #failed(error: unknown): Outcome {
    if (error instanceof CircuitOpen) return { kind: 'busy', retryAfterMs: error.retryAfterMs }
    const failure = error instanceof ArbiterError ? error.failure : 'garbled'
    this.#options.log(`arbiter_${failure}`, describe(error))
    return failure === 'refused' ? busy : unknown
  }
}

/** One bucket's claims in this isolate. */
interface Lane {
  readonly bucket: Bucket
  /** In order of arrival. */
  readonly waiting: Waiter[]
  readonly calls: Set<Call>
}

interface Call {
  readonly claims: readonly Waiter[]
  readonly startedAtMs: number
}

/** One claim that waits for its outcome. */
class Waiter {
  readonly args: ClaimArgs
  outcome: Outcome | undefined
  #wake: (() => void) | undefined

  constructor(args: ClaimArgs) {
    this.args = args
  }

  /** The first outcome counts. */
  settle(outcome: Outcome): void {
    this.outcome ??= outcome
    this.wake()
  }

  wake(): void {
    this.#wake?.()
  }

  /**
   * Resolves when there is an outcome or a place to lead, in the claim's own request. Not by `new Promise`: compiled
   * code makes those without noting whose request they belong to, and after about 15,000 claims an isolate went on
   * with each claim in its leader's request, where its answer can't be made.
   */
  woken(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    return promise
  }
}

/** At its deadline: a claim that no call has taken yet is withdrawn, so BUSY is the truth. */
function giveUp(lane: Lane, waiter: Waiter): void {
  if (waiter.outcome !== undefined) return
  const place = lane.waiting.indexOf(waiter)
  if (place >= 0) lane.waiting.splice(place, 1)
  waiter.settle(place >= 0 ? busy : unknown)
}
