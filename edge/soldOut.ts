import type { ClaimArgs, ClaimReply } from '../lua/claim.ts'
import type { Bucket } from '../lua/keys.ts'
import { peekClaimToken } from '../schema/tokens.ts'
import { bounds } from './bounds.ts'
import type { Outcome } from './groupCommit.ts'
import type { Holders } from './holders.ts'
import type { Lifetime } from './lifetime.ts'
import type { LocationCache } from './locationCache.ts'
import type { UserSet } from './userSet.ts'

/** Decides claims, or passes them on to who does. */
export interface Arbiter {
  /** Never rejects. Ends within `claimDeadlineMs`, a little more when it asks others first. */
  decide(bucket: Bucket, args: ClaimArgs, lifetime: Lifetime): Promise<Outcome>
}

export interface SoldOutOptions {
  readonly arbiter: Arbiter
  readonly holders: Holders
  readonly cache: LocationCache
  clock(): number
}

/** What is known of one bucket that was sold out. */
interface Marker {
  epoch: number
  /** Start of the latest call whose reply told, or zero when that reply was not that it is sold out. */
  soldOutAtMs: number
  /** Start of the latest call that told anything of the bucket. */
  toldAtMs: number
  /** Who may have something else to hear than SOLD_OUT; undefined while that is not known for this epoch. */
  holders: UserSet | undefined
  holdersUntilMs: number
  loadAfterMs: number
  /** Until then a claim is looking whether the marker still holds. */
  probeUntilMs: number
}

const refused: Outcome = { kind: 'refused', refusal: 'SOLD_OUT' }

/**
 * Answers SOLD_OUT from memory (CL6). A marker holds for one epoch, for less than a second after the arbiter said so:
 * before that is over one claim goes through and looks again, so a refill reopens within the second everywhere.
 *
 * Whoever has an acceptance in the bucket always goes through: his claim may be a repetition, and hears its
 * acceptance; or the limit, or that its token is used. For that, the users with acceptances are fetched once an epoch.
 * No marker refuses anyone before they are known.
 */
export class SoldOut implements Arbiter {
  readonly #options: SoldOutOptions
  readonly #markers = new Map<string, Marker>()

  constructor(options: SoldOutOptions) {
    this.#options = options
  }

  /**
   * Whether a claim with this token is refused from memory now. Before anything is proven: after the end of the stock
   * nearly everyone hears this, so it must cost nearly nothing, and while there is stock nothing. Whoever has an
   * acceptance goes on, to hear of it; a forger without one hears SOLD_OUT like everyone.
   */
  refuses(campaignId: string, token: string): boolean {
    if (this.#markers.size === 0) return false
    const hint = peekClaimToken(token, campaignId)
    const marker = hint && this.#markers.get(nameOf({ campaignId, bucket: hint.bucket }))
    if (marker?.holders === undefined) return false
    const { clock } = this.#options
    return clock() < marker.soldOutAtMs + bounds.soldOutFreshMs && !marker.holders.has(hint!.userId)
  }

  decide(bucket: Bucket, args: ClaimArgs, lifetime: Lifetime): Promise<Outcome> {
    if (this.#markers.size === 0) return this.#options.arbiter.decide(bucket, args, lifetime)
    const name = nameOf(bucket)
    const marker = this.#markers.get(name)
    const nowMs = this.#options.clock()
    if (
      marker?.holders === undefined ||
      nowMs >= marker.soldOutAtMs + bounds.soldOutHoldsMs ||
      marker.holders.has(args.userId)
    )
      return this.#options.arbiter.decide(bucket, args, lifetime)
    if (nowMs < marker.soldOutAtMs + bounds.soldOutFreshMs || nowMs < marker.probeUntilMs)
      return Promise.resolve(refused)
    marker.probeUntilMs = nowMs + bounds.soldOutHoldsMs
    return this.#probe(name, bucket, args, lifetime, marker)
  }

  /** Another isolate of the location may have looked meanwhile; that counts from when it looked. */
  async #probe(
    name: string,
    bucket: Bucket,
    args: ClaimArgs,
    lifetime: Lifetime,
    marker: Marker,
  ): Promise<Outcome> {
    const { cache, clock } = this.#options
    const shared = parseShared(await (await cache.get(markerName(name)))?.text())
    const nowMs = clock()
    if (
      shared?.epoch === marker.epoch &&
      shared.atMs > marker.soldOutAtMs &&
      shared.atMs <= nowMs &&
      nowMs < shared.atMs + bounds.soldOutFreshMs
    ) {
      marker.soldOutAtMs = shared.atMs
      marker.probeUntilMs = 0
      return refused
    }
    return this.#options.arbiter.decide(bucket, args, lifetime)
  }

  /** Takes note of a call's reply. To be told of every one, with the instant at which its call was started. */
  learn(bucket: Bucket, reply: ClaimReply, startedAtMs: number, lifetime: Lifetime): void {
    const name = nameOf(bucket)
    let marker = this.#markers.get(name)
    const isSoldOut = reply.verdicts.some(({ decision }) => decision === 'SOLD_OUT')
    if (marker === undefined) {
      if (!isSoldOut) return
      marker = this.#add(name)
    }
    // Replies of two calls may arrive in any order.
    if (startedAtMs < marker.toldAtMs) return
    marker.toldAtMs = startedAtMs
    if (isSoldOut) {
      if (reply.epoch !== marker.epoch) {
        marker.epoch = reply.epoch
        marker.holders = undefined
      }
      const told = startedAtMs > marker.soldOutAtMs
      marker.soldOutAtMs = startedAtMs
      marker.probeUntilMs = 0
      if (told) this.#share(name, marker, lifetime)
      this.#loadHolders(bucket, marker, lifetime)
    } else if (
      reply.epoch !== marker.epoch ||
      reply.remaining > 0 ||
      reply.verdicts.some(({ decision }) => closes.has(decision))
    ) {
      marker.soldOutAtMs = 0
    }
  }

  #add(name: string): Marker {
    if (this.#markers.size >= bounds.soldOutMarkersMax) {
      const [oldest] = this.#markers.keys()
      this.#markers.delete(oldest!)
    }
    const marker: Marker = {
      epoch: -1,
      soldOutAtMs: 0,
      toldAtMs: 0,
      holders: undefined,
      holdersUntilMs: 0,
      loadAfterMs: 0,
      probeUntilMs: 0,
    }
    this.#markers.set(name, marker)
    return marker
  }

  #share(name: string, { epoch, soldOutAtMs, holders }: Marker, lifetime: Lifetime): void {
    // Without holders it refuses nobody yet, so nobody looks for it either.
    if (holders === undefined) return
    const body = JSON.stringify({ epoch, atMs: soldOutAtMs })
    lifetime.waitUntil(this.#options.cache.put(markerName(name), body, bounds.soldOutHoldsMs))
  }

  #loadHolders(bucket: Bucket, marker: Marker, lifetime: Lifetime): void {
    const { holders, clock } = this.#options
    const nowMs = clock()
    const known = marker.holders !== undefined && nowMs < marker.holdersUntilMs
    if (known || nowMs < marker.loadAfterMs) return
    const { epoch } = marker
    // A load whose request died is tried again after this, and no bucket is read more often.
    marker.loadAfterMs = nowMs + bounds.holdersLoadEveryMs
    const { campaignId } = bucket
    const load = holders.load({ campaignId, bucket: bucket.bucket }, epoch).then((users) => {
      if (users === undefined || marker.epoch !== epoch) return
      marker.holders = users
      marker.holdersUntilMs = clock() + bounds.holdersKeptMs
    })
    lifetime.waitUntil(load)
  }
}

/** Answers to a claim that is new to its user from which follows that nobody should hear SOLD_OUT any more. */
const closes = new Set(['NOT_READY', 'VOIDED', 'ENDED', 'PAUSED', 'NOT_STARTED', 'BUSY', 'ACCEPTED'])

const nameOf = ({ campaignId, bucket }: Bucket) => `${campaignId}/${bucket}`
const markerName = (name: string) => `sold-out/${name}`

function parseShared(text: string | undefined): { epoch: number; atMs: number } | undefined {
  return text === undefined ? undefined : JSON.parse(text)
}
