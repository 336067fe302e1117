import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { HttpClient } from '../traffic/client.ts'
import { arrive, closedLoop } from '../traffic/openLoop.ts'
import { type Answer, ask, latencyOf, noteTiming } from './answer.ts'
import { follow, type Watchers } from './follow.ts'
import { comesAgainAfter, leavesOpen, tellsNothing, waitBefore } from './patience.ts'
import type { Act, Plan } from './population.ts'
import { makeRandom, type Random } from './random.ts'
import { percentileOf, type Tally } from './tally.ts'
import type { makeTokens } from './tokens.ts'
import { type Acceptance, makeVisitors, readAcceptance, type Visitor } from './visitor.ts'

export interface CrowdCampaign {
  id: string
  bucketCount: number
}

export interface CrowdParts {
  /** For claims and tokens; each kind of traffic has connections of its own, so that none waits behind another. */
  client: HttpClient
  watchers: Watchers
  campaigns: readonly CrowdCampaign[]
  tally: Tally
  tokens: ReturnType<typeof makeTokens>
  /** Whoever shows it hears how long the gate took, and how much of that was waiting for the arbiter. */
  gateToken: string
  /** Makes a login for a user. */
  mintLogin(userId: string): Promise<string>
}

const attemptsMax = 10
const resolveWithinMs = 30_000

/** A planned crowd as it comes, presses, waits, comes again, and watches what becomes of its claims. */
export class Crowd {
  readonly visitors: Visitor[]
  readonly accepted: Acceptance[] = []
  /** When acceptances were told, and how long they took from when the press was due. */
  readonly acceptTimes: { toldAtMs: number; ms: number }[] = []
  /** Repetitions whose answer was not that of the acceptance, byte for byte. */
  mismatches = 0
  /** Bots who were given something. */
  fooled = 0
  /** Outcomes that a client was left to ask for. */
  unknowns = 0
  /** When BUSY was told (ms since the epoch). */
  readonly busyAtMs: number[] = []
  /** When SOLD_OUT was first told, by campaign (ms since the epoch). */
  readonly soldOutAtMs = new Map<string, number>()
  readonly #parts: CrowdParts
  readonly plan: Plan
  readonly #random: Random
  readonly #logins = new Map<Visitor, string>()
  #leaving = false

  constructor(plan: Plan, parts: CrowdParts) {
    this.plan = plan
    this.#parts = parts
    this.#random = makeRandom(plan.presses.length)
    this.visitors = makeVisitors(plan.people)
  }

  /** What clients have before they press: tokens, and a login for those who fetch theirs late. */
  async prepare(): Promise<void> {
    const late: Visitor[] = []
    for (const visitor of this.visitors)
      if (visitor.person.kind === 'late') late.push(visitor)
      else if (visitor.person.kind !== 'bot') visitor.token = this.#token(visitor, 'genuine')
    for (const visitor of late) this.#logins.set(visitor, await this.#parts.mintLogin(visitor.userId))
  }

  /** All presses, each at its time. Resolves when every answer is there and everybody has left or been told. */
  async come(beganAt: number): Promise<void> {
    const { presses } = this.plan
    await arrive(
      presses.length,
      beganAt,
      (i) => presses[i]!.atMs,
      (i, dueAt) => this.#press(this.visitors[presses[i]!.person]!, presses[i]!.act, dueAt),
    )
  }

  /** The 99th percentile of what acceptances took that were told up to an instant (ms since the epoch). */
  acceptP99(untilMs = Number.POSITIVE_INFINITY): number | undefined {
    const times = this.acceptTimes.filter(({ toldAtMs }) => toldAtMs < untilMs)
    return (
      percentileOf(
        times.map(({ ms }) => ms),
        99,
      ) ?? undefined
    )
  }

  /** One claim of the i-th visitor, now. */
  async once(i: number): Promise<void> {
    const visitor = this.visitors[i]!
    await this.#claim(visitor, visitor.key, performance.now())
  }

  /** The same claim again, outside of the run's counts; another answer than before is a mismatch. */
  async repeat(visitor: Visitor): Promise<void> {
    const { client, tally } = this.#parts
    const again = () => ask(client, tally, this.#encode(visitor, visitor.key))
    let { code, reply } = await again()
    const end = performance.now() + resolveWithinMs
    while (tellsNothing(code) && performance.now() < end) {
      await pause(200)
      ;({ code, reply } = await again())
    }
    const same = code === 'REPLAYED' && reply?.body === visitor.acceptance?.body
    // Accepted under the other key of a double tap: this one has no answer of its own.
    const other = code === 'TOKEN_USED' && visitor.person.kind === 'double_tapper'
    if (!same && !other) this.mismatches++
  }

  /** Nobody comes again from now on, but to ask for an outcome that is unknown. */
  leave(): void {
    this.#leaving = true
  }

  /** Those with an unknown outcome ask with the same key until they know. @returns how many never learn it */
  async resolve(): Promise<number> {
    const open = this.visitors.filter(({ unknown }) => unknown)
    const end = performance.now() + resolveWithinMs
    await closedLoop(open.length, 32, async (i) => {
      const visitor = open[i]!
      while (visitor.unknown && performance.now() < end) {
        const { code } = await this.#claim(visitor, visitor.key, performance.now())
        // The gate looks at the acceptances first: these codes, from the arbiter, say that there is none.
        if (!tellsNothing(code)) visitor.unknown = false
        else await pause(200)
      }
    })
    return open.filter(({ unknown }) => unknown).length
  }

  async #press(visitor: Visitor, act: Act, dueAt: number): Promise<void> {
    switch (act) {
      case 'fetch':
        if (await this.#fetchToken(visitor, dueAt)) await this.#insist(visitor, performance.now())
        return
      case 'no_login':
        return this.#askWithoutLogin(visitor, dueAt)
      case 'forged':
      case 'expired':
        visitor.token ??= this.#token(visitor, act)
        await this.#claim(visitor, randomUUID(), dueAt, 'bot')
        return
      case 'other_key':
        await this.#claim(visitor, `${visitor.key}-2`, dueAt)
        return
      case 'again':
        await this.#claim(visitor, visitor.key, dueAt)
        return
      case 'claim':
        await this.#insist(visitor, dueAt)
    }
  }

  /** Presses until there is an answer that is final, or patience ends. */
  async #insist(visitor: Visitor, firstDueAt: number): Promise<void> {
    let dueAt = firstDueAt
    for (let attempt = 0; attempt < attemptsMax; attempt++) {
      const { code, body } = await this.#claim(visitor, visitor.key, dueAt)
      if (!comesAgainAfter(code)) return
      const startsAt = code === 'NOT_STARTED' ? Date.parse(body['starts_at'] as string) : undefined
      const wait = waitBefore(
        attempt,
        {
          retryAfterMs: body['retry_after_ms'] as number | undefined,
          startsInMs: startsAt === undefined ? undefined : startsAt - Date.now(),
        },
        this.#random,
      )
      dueAt = performance.now() + wait
      await pause(wait)
      if (this.#leaving) return
    }
  }

  async #claim(visitor: Visitor, key: string, dueAt: number, as = 'refuse'): Promise<Answer> {
    const { tally } = this.#parts
    const { id } = this.#campaignOf(visitor)
    const request = this.#encode(visitor, key)
    tally.offer()
    const answer = await ask(this.#parts.client, this.#parts.tally, request)
    const { code, reply } = answer
    const ms = performance.now() - dueAt
    tally.answer(code, latencyOf(code, as), ms)
    if (reply !== undefined) tally.size(`claim ${code}`, request, reply)
    if (code === 'ACCEPTED') this.acceptTimes.push({ toldAtMs: Date.now(), ms })
    if (reply !== undefined) noteTiming(tally, reply)
    if (reply !== undefined && (code === 'ACCEPTED' || code === 'REPLAYED'))
      this.#take(visitor, id, reply.body, key)
    else if (leavesOpen(code)) {
      if (!visitor.unknown) this.unknowns++
      if (key === visitor.key) visitor.unknown = true
    } else if (code === 'BUSY') this.busyAtMs.push(Date.now())
    else if (code === 'SOLD_OUT' && !this.soldOutAtMs.has(id)) this.soldOutAtMs.set(id, Date.now())
    if (!tellsNothing(code) && key === visitor.key) visitor.unknown = false
    return answer
  }

  #encode(visitor: Visitor, key: string): Buffer {
    return this.#parts.client.encode('POST', `/v1/campaigns/${this.#campaignOf(visitor).id}/claims`, {
      'Claim-Token': visitor.token!,
      'Idempotency-Key': key,
      'Device-Id': visitor.deviceId,
      'CF-Connecting-IP': visitor.person.address,
      ...(visitor.timed ? { 'Gate-Token': this.#parts.gateToken } : {}),
    })
  }

  /** An acceptance, first heard or repeated. */
  #take(visitor: Visitor, campaignId: string, body: string, key: string): void {
    if (visitor.person.kind === 'bot') this.fooled++
    if (visitor.acceptance !== undefined) {
      if (key === visitor.key && visitor.acceptance.body !== body) this.mismatches++
      return
    }
    visitor.acceptance = readAcceptance(visitor, campaignId, body)
    this.accepted.push(visitor.acceptance)
    follow(visitor.person.kind, visitor.acceptance, this.#parts.watchers)
  }

  async #fetchToken(visitor: Visitor, firstDueAt: number): Promise<boolean> {
    const { client, tally } = this.#parts
    const login = this.#logins.get(visitor)!
    let dueAt = firstDueAt
    for (let attempt = 0; attempt < attemptsMax && !this.#leaving; attempt++) {
      const request = client.encode('POST', `/v1/campaigns/${this.#campaignOf(visitor).id}/claim-tokens`, {
        Authorization: `Bearer ${login}`,
        'Device-Id': visitor.deviceId,
        'CF-Connecting-IP': visitor.person.address,
      })
      tally.offer()
      const { code, body, reply } = await ask(this.#parts.client, this.#parts.tally, request)
      tally.answer(code, 'token', performance.now() - dueAt)
      if (reply !== undefined) tally.size('token', request, reply)
      visitor.token = body['claim_token'] as string | undefined
      if (visitor.token !== undefined) return true
      if (!comesAgainAfter(code)) return false
      const retryAfterMs = body['retry_after_ms'] as number | undefined
      const wait = waitBefore(attempt, { retryAfterMs }, this.#random)
      dueAt = performance.now() + wait
      await pause(wait)
    }
    return false
  }

  async #askWithoutLogin(visitor: Visitor, dueAt: number): Promise<void> {
    const { client, tally } = this.#parts
    const path = `/v1/campaigns/${this.#campaignOf(visitor).id}/claim-tokens`
    tally.offer()
    const { code } = await ask(
      this.#parts.client,
      this.#parts.tally,
      client.encode('POST', path, {
        'Device-Id': visitor.deviceId,
        'CF-Connecting-IP': visitor.person.address,
      }),
    )
    tally.answer(code, 'bot', performance.now() - dueAt)
    if (code === 'TOKEN_ISSUED') this.fooled++
  }

  #campaignOf(visitor: Visitor): CrowdCampaign {
    return this.#parts.campaigns[visitor.person.campaign]!
  }

  #token(visitor: Visitor, kind: 'genuine' | 'forged' | 'expired'): string {
    const { id: campaignId, bucketCount } = this.#campaignOf(visitor)
    const { userId, deviceId } = visitor
    return this.#parts.tokens({ campaignId, bucketCount, userId, deviceId, kind })
  }
}
