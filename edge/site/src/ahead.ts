import type { Api, ClaimToken, TokenAnswer } from './api.ts'
import type { ServerClock } from './clock.ts'
import type { Model, Refused } from './model.ts'
import { retryDelay, tokenMoment } from './plan.ts'
import { ServerTimer } from './timer.ts'

/** A token must outlive its use by this, or it is fetched anew. */
const spareMs = 5_000
/** After so many failures ahead of the press, the press itself fetches it. */
const failsMax = 8

export interface AheadParts {
  campaignId: string
  api: Pick<Api, 'token'>
  clock: ServerClock
  random(): number
  model(): Model
  login(): string | undefined
  /** The stored token, and the place to store one. */
  stored(): ClaimToken | undefined
  keep(token: ClaimToken): void
  /** A refusal that came before any press. */
  refused(refused: Refused): void
}

/** Has the claim token ready before the press, so that the press is one request. */
export class TokenAhead {
  readonly #parts: AheadParts
  readonly #timer: ServerTimer
  #fails = 0
  #underWay: Promise<TokenAnswer> | undefined

  constructor(parts: AheadParts) {
    this.#parts = parts
    this.#timer = new ServerTimer(parts.clock)
  }

  /** Chooses the moment for the campaign as it now stands. */
  plan(): void {
    const { model, clock, random } = this.#parts
    const view = model().view
    if (view === undefined) return
    const [startsAt, tokensFrom] = [Date.parse(view.starts_at), Date.parse(view.token_opens_at)]
    this.#fetchAt(tokenMoment(clock.now(), startsAt, tokensFrom, random()))
  }

  /** The token in hand, if it will still be good at the start. */
  held(): ClaimToken | undefined {
    const { stored, clock, model } = this.#parts
    const token = stored()
    const startsAt = Date.parse(model().view?.starts_at ?? '')
    const neededAt = Math.max(clock.now(), Number.isNaN(startsAt) ? 0 : startsAt) + spareMs
    return token !== undefined && Date.parse(token.expires_at) > neededAt ? token : undefined
  }

  /** One request at a time, shared by the one made ahead and an impatient press. */
  fetch(): Promise<TokenAnswer> {
    this.#underWay ??= this.#request().finally(() => {
      this.#underWay = undefined
    })
    return this.#underWay
  }

  /** With the answer to a challenge, which is good once: never a request that others share. */
  async answer(answer: string): Promise<TokenAnswer> {
    const other = await this.#underWay
    return other?.kind === 'token' ? other : this.#request(answer)
  }

  #fetchAt(at: number): void {
    this.#timer.set(at, () => {
      const { phase } = this.#parts.model()
      if ((phase === 'upcoming' || phase === 'open') && this.held() === undefined) void this.fetch()
    })
  }

  async #request(answerGiven?: string): Promise<TokenAnswer> {
    const { api, campaignId, login, keep } = this.#parts
    const present = login()
    if (present === undefined) return { kind: 'refused', refused: { code: 'UNAUTHENTICATED' } }
    const answer = await api.token(campaignId, present, answerGiven)
    if (answer.kind === 'token') {
      this.#fails = 0
      keep(answer.token)
    } else if (!this.#parts.model().pending && answerGiven === undefined)
      this.#failed(answer.kind === 'refused' ? answer.refused : undefined)
    return answer
  }

  #failed(refused: Refused | undefined): void {
    const { clock, random } = this.#parts
    if (refused) this.#parts.refused(refused)
    // It is the reader's turn now: asking again would only bring the same challenge.
    if (refused?.code === 'CHALLENGE_REQUIRED') return
    if (++this.#fails > failsMax) return
    this.#fetchAt(clock.now() + retryDelay(this.#fails, refused?.retryAfterMs, random()))
  }
}
