import { TokenAhead } from './ahead.ts'
import type { Api, ClaimAnswer } from './api.ts'
import type { ChallengeBox } from './challenge.ts'
import type { ServerClock } from './clock.ts'
import { userOf } from './login.ts'
import { nextMoment, step } from './machine.ts'
import { type Effect, type Happening, type Model, start } from './model.ts'
import { lookMoment } from './plan.ts'
import { type ClaimRecord, claimKey, newRecord, type Store } from './store.ts'
import { ServerTimer } from './timer.ts'
import { Watch } from './watch.ts'

export interface Parts {
  campaignId: string
  api: Api
  store: Store
  clock: ServerClock
  login(stale?: string): Promise<string | undefined>
  uuid(): string
  random(): number
  show(model: Model): void
  challenge: ChallengeBox
}

const lookAgainAfterMs = 30_000
/** After the end of a ballot its readers ask for the result over this time. */
const drawSpreadMs = 60_000

/** Carries out what the machine decides: requests, timers, what is stored. One for the page. */
export class Controller {
  readonly #parts: Parts
  readonly #moment: ServerTimer
  readonly #look: ServerTimer
  readonly #ahead: TokenAhead
  #model: Model = start
  #login: string | undefined
  #record: ClaimRecord
  #watch: Watch | undefined
  #claiming = false
  #lookedAt = Number.NEGATIVE_INFINITY

  constructor(parts: Parts) {
    this.#parts = parts
    this.#record = newRecord(parts.uuid(), 0)
    this.#moment = new ServerTimer(parts.clock)
    this.#look = new ServerTimer(parts.clock)
    this.#ahead = new TokenAhead({
      ...parts,
      model: () => this.#model,
      login: () => this.#login,
      stored: () => this.#record.token,
      keep: (token) => {
        this.#record = { ...this.#record, token }
        this.#keep()
      },
      refused: (refused) => this.#dispatch({ type: 'refused', refused }),
    })
  }

  async start(): Promise<void> {
    this.#show()
    if (this.#parts.campaignId === '') {
      this.#dispatch({ type: 'view_lost', refused: { code: 'CAMPAIGN_NOT_FOUND' } })
      return
    }
    const first = this.#lookNow()
    this.#signIn(await this.#parts.login())
    await first
  }

  press(): void {
    this.#dispatch({ type: 'press' })
  }

  /** What the challenge's widget says; heard only while one is shown. */
  challenged(
    happening: Extract<Happening, { type: 'challenge_solved' | 'challenge_expired' | 'challenge_failed' }>,
  ): void {
    this.#dispatch(happening)
  }

  another(): void {
    this.#dispatch({ type: 'another' })
  }

  /** The network is back. */
  online(): void {
    this.#dispatch({ type: 'online' })
  }

  /** The page is in front again; `jumped` when the device's clock leapt meanwhile (sleep, or set by hand). */
  wake(jumped: boolean): void {
    this.#watch?.look()
    const stale = this.#parts.clock.now() - this.#lookedAt > lookAgainAfterMs
    // Before the opening only a leap of the clock is worth a request: the countdown would be wrong.
    const worthwhile = stale && this.#model.phase !== 'upcoming' && this.#model.retryAt === undefined
    if (jumped || worthwhile) void this.#lookNow()
    else this.#dispatch({ type: 'due' })
  }

  /** Another tab of this browser wrote its claim under this storage key. */
  storageChanged(key: string | null): void {
    const { campaignId, store } = this.#parts
    if (this.#login === undefined || this.#claiming) return
    if (key !== claimKey(campaignId, userOf(this.#login))) return
    const theirs = store.read(campaignId, userOf(this.#login))
    const delivered = theirs.coupon?.couponId !== this.#model.coupon?.couponId
    const accepted = theirs.acceptance !== undefined && this.#record.acceptance === undefined
    this.#record = theirs
    if (delivered || accepted) this.#resume()
  }

  #dispatch(happening: Happening): void {
    const { clock, random } = this.#parts
    const [next, effects] = step(this.#model, happening, { now: clock.now(), random: random() })
    this.#model = next
    this.#keep()
    this.#show()
    for (const effect of effects) this.#run(effect)
    this.#moment.set(nextMoment(this.#model), () => this.#dispatch({ type: 'due' }))
  }

  /** Until the network answers, the campaign is shown as it was last seen here; nothing is decided by that. */
  #show(): void {
    const view = this.#model.view ?? this.#parts.store.lastView(this.#parts.campaignId)
    this.#parts.show(view ? { ...this.#model, view } : this.#model)
    this.#parts.challenge.show(this.#model.phase === 'challenge' ? this.#model.challenge : undefined)
  }

  #run(effect: Effect): void {
    switch (effect.type) {
      case 'claim':
        void this.#claim(effect.renew)
        break
      case 'answer':
        void this.#answer(effect.answer)
        break
      case 'look':
        void this.#lookNow()
        break
      case 'watch':
        this.#startWatch()
        break
      case 'forget':
        this.#record = newRecord(this.#parts.uuid(), this.#model.owned)
        this.#keep()
        break
      case 'relogin':
        void this.#relogin()
    }
  }

  /** Writes down what a reload must know. */
  #keep(unheard = this.#model.unheard): void {
    if (this.#login === undefined) return
    const { coupon: _coupon, acceptance, ...rest } = this.#record
    const { pending, owned, coupon, acceptedAt } = this.#model
    this.#record = { ...rest, pending, unheard, owned }
    if (acceptance && acceptedAt !== undefined) this.#record.acceptance = acceptance
    if (coupon) this.#record.coupon = coupon
    this.#parts.store.write(this.#parts.campaignId, userOf(this.#login), this.#record)
  }

  #signIn(found: string | undefined): void {
    this.#login = found
    if (found !== undefined) {
      this.#record = this.#parts.store.read(this.#parts.campaignId, userOf(found))
      this.#resume()
    }
    this.#dispatch({ type: 'login', signedIn: found !== undefined })
    this.#planAhead()
  }

  async #relogin(): Promise<void> {
    const [stale, found] = [this.#login, await this.#parts.login(this.#login)]
    const renewed = found !== undefined && stale !== undefined && userOf(found) === userOf(stale)
    if (renewed) this.#login = found
    this.#dispatch({ type: 'relogin', renewed })
  }

  #resume(): void {
    const { coupon, acceptance, pending, unheard, owned } = this.#record
    const now = this.#parts.clock.now()
    const expired = coupon?.validUntil !== undefined && Date.parse(coupon.validUntil) <= now
    this.#dispatch({
      type: 'resume',
      kept: {
        pending,
        unheard,
        owned,
        ...(coupon && !expired ? { coupon } : {}),
        ...(acceptance ? { acceptedAt: Date.parse(acceptance.accepted_at) } : {}),
      },
    })
  }

  async #lookNow(): Promise<void> {
    const { api, campaignId, clock, store } = this.#parts
    this.#lookedAt = clock.now()
    const answer = await api.view(campaignId)
    if (answer.kind === 'view') store.keepView(answer.view)
    const view = answer.kind === 'view' ? answer.view : this.#model.view
    if (view && (answer.kind === 'view' || answer.kind === 'unchanged')) {
      this.#dispatch({ type: 'view', view })
      this.#planAhead()
    } else {
      const refused = answer.kind === 'refused' ? { refused: answer.refused } : {}
      this.#dispatch({ type: 'view_lost', ...refused })
    }
  }

  #planAhead(): void {
    const view = this.#model.view
    if (view === undefined) return
    const { clock, random } = this.#parts
    this.#look.set(lookMoment(clock.now(), Date.parse(view.starts_at), random()), () => void this.#lookNow())
    this.#ahead.plan()
  }

  async #claim(renew: boolean): Promise<void> {
    if (this.#claiming) return
    this.#claiming = true
    const held = renew ? undefined : this.#ahead.held()
    // With the token in hand the claim leaves in this very task: a press is one request.
    const token = held ? ({ kind: 'token', token: held } as const) : await this.#ahead.fetch()
    let outcome: ClaimAnswer
    if (token.kind === 'token') {
      // Until an answer says otherwise, this claim may have been accepted: also for whoever reads it after a reload.
      this.#keep(true)
      outcome = await this.#parts.api.claim(this.#parts.campaignId, token.token.claim_token, this.#record.key)
    } else outcome = token
    this.#claiming = false
    this.#hear(outcome, token.kind === 'token')
  }

  async #answer(answer: string): Promise<void> {
    const token = await this.#ahead.answer(answer)
    if (token.kind === 'token') this.#dispatch({ type: 'challenge_passed' })
    else this.#hear(token, false)
  }

  #hear(answer: ClaimAnswer, sent: boolean): void {
    switch (answer.kind) {
      case 'lost':
        this.#dispatch({ type: 'lost', sent })
        break
      case 'refused':
        this.#dispatch({ type: 'refused', refused: answer.refused })
        break
      case 'settled':
        this.#spendToken()
        this.#dispatch({ type: 'settled', settled: answer.settled })
        break
      case 'accepted':
        this.#spendToken()
        this.#record.acceptance = answer.acceptance
        this.#dispatch({ type: 'accepted', at: Date.parse(answer.acceptance.accepted_at) })
    }
  }

  #spendToken(): void {
    const { token: _used, ...rest } = this.#record
    this.#record = rest
  }

  #startWatch(): void {
    const { acceptance } = this.#record
    if (acceptance === undefined) return
    const { view } = this.#model
    const { api, clock, random } = this.#parts
    const left = view?.mode === 'ballot' ? Date.parse(view.ends_at) - clock.now() : 0
    this.#watch?.stop()
    this.#watch = new Watch({
      statusUrl: acceptance.status_url,
      eventsUrl: acceptance.events_url,
      pollAfterMs: acceptance.poll_after_ms,
      quietMs: left > 0 ? left + random() * drawSpreadMs : 0,
      status: api.status,
      login: () => this.#login,
      random,
      tell: (settled) => this.#dispatch({ type: 'settled', settled }),
    })
  }
}
