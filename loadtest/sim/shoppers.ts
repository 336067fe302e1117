import { bucketOf } from '../../schema/hash.ts'
import type { Keyring } from '../../schema/sealed.ts'
import { alphabet } from '../../schema/sixbit.ts'
import { sealClaimToken } from '../../schema/tokens.ts'
import type { Follow } from './follow.ts'
import type { Listener } from './listen.ts'
import type { Random } from './random.ts'
import type { Town } from './town.ts'

/** What one try of a client came to. */
export interface Answer {
  userId: string
  key: string
  tokenId: string
  device: string
  askedAtMs: number
  answeredAtMs: number
  /** ACCEPTED, a refusal's code, or `no answer`. */
  code: string
  requestId: string | undefined
  body: string
}

/** An acceptance that its client has seen. */
export interface Acceptance {
  userId: string
  requestId: string
  receipt: string
  seenAtMs: number
}

/** Final results that somebody was told, with how. */
export interface Told {
  userId: string
  requestId: string
  status: 'DELIVERED' | 'REJECTED'
  by: string
  reason: string | undefined
  couponId: string | undefined
}

export interface Record {
  readonly answers: Answer[]
  readonly acceptances: Map<string, Acceptance>
  readonly told: Told[]
  readonly follows: Follow[]
  readonly listeners: Listener[]
}

/** Codes after which asking again with the same key is what a client should do. */
const passing = new Set([
  'no answer',
  'BUSY',
  'NOT_READY',
  'PAUSED',
  'OUTCOME_UNKNOWN',
  'UNAVAILABLE',
  'NOT_STARTED',
  'RATE_LIMITED',
])
const answerWithinMs = 6_000

interface Ticket {
  key: string
  device: string
  tokenId: string
  token: string
}

/** People of one seed. Each has a random stream of their own, so that none's choices depend on another's. */
export class Shopper {
  readonly userId: string
  readonly #town: Town
  readonly #random: Random
  readonly #ring: Keyring
  #tickets = 0

  constructor(userId: string, town: Town, ring: Keyring) {
    this.userId = userId
    this.#town = town
    this.#random = town.random.fork(`shopper ${userId}`)
    this.#ring = ring
  }

  /** One person's visit, from coming to going. */
  async visit(withinMs: number): Promise<void> {
    const random = this.#random
    const { scheduler } = this.#town
    await scheduler.sleep(random.int(0, withinMs))
    if (random.chance(0.4)) this.#town.listen(this.userId)
    const ticket = this.#fetchTicket(`phone of ${this.userId}`)
    const twice = random.chance(0.2)
    const [first] = await Promise.all([this.#insist(ticket), ...(twice ? [this.#insist(ticket)] : [])])
    if (first?.requestId !== undefined) this.#town.follow(this, first.requestId, random)
    const more = random.weighted({
      nothing: 40,
      again: 25,
      'other key': 10,
      'new token': 20,
      'other device': 5,
    })
    if (more === 'nothing') return
    await scheduler.sleep(random.int(10, 3_000))
    if (more === 'again') await this.#insist(ticket)
    if (more === 'other key') await this.#insist({ ...ticket, key: `${ticket.key}-other` })
    if (more === 'other device')
      await this.#insist({ ...this.#fetchTicket('a strange phone'), key: ticket.key })
    if (more !== 'new token') return
    const second = await this.#insist(this.#fetchTicket(`phone of ${this.userId}`))
    if (second?.requestId !== undefined) this.#town.follow(this, second.requestId, random)
  }

  /** Comes when all is quiet, and asks again and again while `hoping`. @returns the last answer. */
  async comeLate(hoping: () => boolean): Promise<Answer | undefined> {
    const ticket = this.#fetchTicket('late phone')
    let answer: Answer | undefined
    while (hoping()) {
      answer = await this.#ask(ticket)
      if (answer.code === 'ACCEPTED') return answer
      await this.#town.scheduler.sleep(300)
    }
    return answer
  }

  #fetchTicket(device: string): Ticket {
    const { scheduler, campaignId, plan } = this.#town
    const random = this.#random
    let tokenId = ''
    for (let i = 0; i < 9; i++) tokenId += alphabet[random.int(0, 63)]
    const token = sealClaimToken(
      {
        campaignId,
        bucket: bucketOf(this.userId, campaignId, plan.bucketCount),
        userId: this.userId,
        deviceHash: device.replaceAll(' ', '').slice(-8).padEnd(8, '-'),
        notBeforeMs: scheduler.nowMs,
        expiresAtMs: scheduler.nowMs + 1_800_000,
        tokenId,
        terms: 'stream',
      },
      this.#ring,
    )
    this.#tickets += 1
    return { key: `${this.userId}-key-${this.#tickets}`, device, tokenId, token }
  }

  /** Asks until there is an answer that asking again won't change, or patience is at its end. */
  async #insist(ticket: Ticket): Promise<Answer | undefined> {
    const random = this.#random
    const patience = random.int(3, 12)
    let answer: Answer | undefined
    for (let tries = 0; tries < patience; tries++) {
      answer = await this.#ask(ticket)
      if (!passing.has(answer.code) && !(answer.code === 'SOLD_OUT' && random.chance(0.3))) return answer
      await this.#town.scheduler.sleep(random.int(50, 1_200))
    }
    return answer
  }

  async #ask(ticket: Ticket): Promise<Answer> {
    const { scheduler, network } = this.#town
    const askedAtMs = scheduler.nowMs
    const headers = { 'Claim-Token': ticket.token, 'Idempotency-Key': ticket.key }
    const edge = this.#random.pick(this.#town.edges)
    const name = edge.process.name
    const asked = edge
      .claim(headers)
      .then(async (response) => ({ status: response.status, body: await scheduler.real(response.text()) }))
      .catch((error: Error) => {
        this.#town.faults.push(`4: the gate threw ${error.message}`)
        return undefined
      })
    const said = await Promise.race([asked, scheduler.sleep(answerWithinMs)])
    // The way to the client may lose it too.
    const lost = network.stormy && this.#random.chance(0.04)
    const { userId } = this
    const about = { userId, key: ticket.key, tokenId: ticket.tokenId, device: ticket.device, askedAtMs }
    let answer: Answer
    if (said === undefined || lost) {
      answer = { ...about, answeredAtMs: scheduler.nowMs, code: 'no answer', requestId: undefined, body: '' }
    } else {
      const body = JSON.parse(said.body) as { code?: string; request_id: string; receipt: string }
      const accepted = said.status === 202
      const requestId = accepted ? body.request_id : undefined
      const code = accepted ? 'ACCEPTED' : (body.code ?? `status ${said.status}`)
      answer = { ...about, answeredAtMs: scheduler.nowMs, code, requestId, body: said.body }
      if (accepted) this.#town.noteAcceptance(userId, body.request_id, body.receipt)
    }
    this.#town.record.answers.push(answer)
    const lostNow = lost ? '  !! the answer is lost on its way to the client' : ''
    network.note(
      `${userId} claims at ${name} with ${ticket.key} → ${answer.code} ${answer.requestId ?? ''}${lostNow}`,
    )
    return answer
  }
}
