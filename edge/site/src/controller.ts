import type { Acceptance, Api, ClaimAnswer, ClaimToken, Lost, Refusal } from './api.ts'
import type { ServerClock } from './clock.ts'
import { userOf } from './login.ts'
import { type Effect, type Happening, type Model, nextMoment, start, step } from './machine.ts'
import { lookMoment, retryDelay, tokenMoment } from './plan.ts'
import { type ClaimRecord, claimKey, newRecord, type Store } from './store.ts'
import { type Watch, watchClaim } from './watch.ts'

/** Carries out what the machine decides: requests, timers, what is stored. One for the page. */
export interface Controller {
  start(): Promise<void>
  press(): void
  another(): void
  /** The network is back. */
  online(): void
  /** The page is in front again; `jumped` when the device's clock leapt meanwhile (sleep, or set by hand). */
  wake(jumped: boolean): void
  /** Another tab of this browser wrote its claim under this storage key. */
  storageChanged(key: string | null): void
}

export interface Parts {
  campaignId: string
  api: Api
  store: Store
  clock: ServerClock
  login(stale?: string): Promise<string | undefined>
  uuid(): string
  random(): number
  show(model: Model): void
}

/** Timers longer than this are chained: beyond 2^31 ms a browser's fires at once, and clocks get corrected. */
const timerMaxMs = 30_000
const lookAgainAfterMs = 30_000
/** A token must outlive its fetching by this, or it is fetched anew. */
const tokenSpareMs = 5_000
/** After so many failures ahead of the press, the press itself fetches it. */
const tokenFailsMax = 8
const drawSpreadMs = 60_000

export function controller(parts: Parts): Controller {
  const { campaignId, api, store, clock } = parts
  let model: Model = start
  let login: string | undefined
  let record: ClaimRecord = newRecord(parts.uuid(), 0)
  const lastView = store.lastView(campaignId)
  let watch: Watch | undefined
  let claiming = false
  let lookedAt = Number.NEGATIVE_INFINITY
  let tokenFails = 0
  let tokenUnderWay: Promise<TokenOutcome> | undefined
  const plans: Record<'moment' | 'token' | 'look', Plan> = { moment: {}, token: {}, look: {} }

  function dispatch(happening: Happening): void {
    const [next, effects] = step(model, happening, { now: clock.now(), random: parts.random() })
    model = next
    keep()
    show()
    for (const effect of effects) run(effect)
    plan(plans.moment, nextMoment(model), () => dispatch({ type: 'due' }))
  }

  /** Until the network answers, the campaign is shown as it was last seen here; nothing is decided by that. */
  function show(): void {
    parts.show(model.view || !lastView ? model : { ...model, view: lastView })
  }

  function run(effect: Effect): void {
    switch (effect.type) {
      case 'claim':
        void claim(effect.renew)
        break
      case 'look':
        void look()
        break
      case 'watch':
        startWatch()
        break
      case 'forget':
        record = newRecord(parts.uuid(), model.owned)
        keep()
        break
      case 'relogin':
        void parts.login(login).then((found) => {
          const renewed = found !== undefined && login !== undefined && userOf(found) === userOf(login)
          if (renewed) login = found
          dispatch({ type: 'relogin', renewed })
        })
    }
  }

  /** Calls `then` at an instant of the server's clock; a new instant replaces the one before. */
  function plan(slot: Plan, at: number | undefined, then: () => void): void {
    clearTimeout(slot.timer)
    if (at === undefined) return
    const wait = Math.max(0, at - clock.now())
    slot.timer = setTimeout(
      () => (wait > timerMaxMs ? plan(slot, at, then) : then()),
      Math.min(wait, timerMaxMs),
    )
  }

  /** Writes down what a reload must know. */
  function keep(unheard = model.unheard): void {
    if (login === undefined) return
    const { coupon: _coupon, acceptance, ...rest } = record
    const waiting = acceptance && model.acceptedAt !== undefined
    record = { ...rest, pending: model.pending, unheard, owned: model.owned }
    if (waiting) record.acceptance = acceptance
    if (model.coupon) record.coupon = model.coupon
    store.write(campaignId, userOf(login), record)
  }

  function signIn(found: string | undefined): void {
    login = found
    if (found !== undefined) {
      record = store.read(campaignId, userOf(found))
      resume()
    }
    dispatch({ type: 'login', signedIn: found !== undefined })
    planAhead()
  }

  function resume(): void {
    const { coupon, acceptance, pending, unheard, owned } = record
    const expired = coupon?.validUntil !== undefined && Date.parse(coupon.validUntil) <= clock.now()
    dispatch({
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

  async function look(): Promise<void> {
    lookedAt = clock.now()
    const answer = await api.view(campaignId)
    if (answer.kind === 'view') store.keepView(answer.view)
    if (answer.kind === 'view' || (answer.kind === 'unchanged' && model.view)) {
      dispatch({ type: 'view', view: answer.kind === 'view' ? answer.view : model.view! })
      planAhead()
    } else {
      dispatch({ type: 'view_lost', ...(answer.kind === 'refused' ? { refused: answer.refused } : {}) })
    }
  }

  function planAhead(): void {
    if (model.view === undefined) return
    const [startsAt, tokensFrom] = [Date.parse(model.view.starts_at), Date.parse(model.view.token_opens_at)]
    plan(plans.look, lookMoment(clock.now(), startsAt, parts.random()), look)
    planToken(tokenMoment(clock.now(), startsAt, tokensFrom, parts.random()))
  }

  function planToken(at: number): void {
    plan(plans.token, at, () => {
      if ((model.phase === 'upcoming' || model.phase === 'open') && heldToken() === undefined)
        void fetchToken()
    })
  }

  function heldToken(): ClaimToken | undefined {
    const { token } = record
    if (token === undefined) return undefined
    const needed = Math.max(clock.now(), model.view ? Date.parse(model.view.starts_at) : 0) + tokenSpareMs
    return Date.parse(token.expires_at) > needed ? token : undefined
  }

  /** One request for a token, shared by the one that is fetched ahead and an impatient press. */
  function fetchToken(): Promise<TokenOutcome> {
    tokenUnderWay ??= (async () => {
      if (login === undefined) return { kind: 'refused', refused: { code: 'UNAUTHENTICATED' } } as const
      const answer = await api.token(campaignId, login)
      tokenUnderWay = undefined
      if (answer.kind === 'token') {
        tokenFails = 0
        record = { ...record, token: answer.token }
        keep()
      } else if (!model.pending) {
        if (answer.kind === 'refused') dispatch({ type: 'refused', refused: answer.refused })
        if (++tokenFails > tokenFailsMax) return answer
        const asked = answer.kind === 'refused' ? answer.refused.retryAfterMs : undefined
        planToken(clock.now() + retryDelay(tokenFails, asked, parts.random()))
      }
      return answer
    })()
    return tokenUnderWay
  }

  async function claim(renew: boolean): Promise<void> {
    if (claiming) return
    claiming = true
    let outcome: ClaimAnswer
    let sent = false
    const held = renew ? undefined : heldToken()
    const token = held ? ({ kind: 'token', token: held } as const) : await fetchToken()
    if (token.kind === 'token') {
      // Until an answer says otherwise, this claim may have been accepted: also for whoever reads it after a reload.
      keep(true)
      sent = true
      outcome = await api.claim(campaignId, token.token.claim_token, record.key)
    } else outcome = token
    claiming = false
    hear(outcome, sent)
  }

  function hear(answer: ClaimAnswer, sent: boolean): void {
    switch (answer.kind) {
      case 'lost':
        dispatch({ type: 'lost', sent })
        break
      case 'refused':
        dispatch({ type: 'refused', refused: answer.refused })
        break
      case 'settled':
        spendToken()
        dispatch({ type: 'settled', settled: answer.settled })
        break
      case 'accepted':
        spendToken()
        record.acceptance = answer.acceptance
        dispatch({ type: 'accepted', at: Date.parse(answer.acceptance.accepted_at) })
    }
  }

  function spendToken(): void {
    const { token: _used, ...rest } = record
    record = rest
  }

  function startWatch(): void {
    const acceptance: Acceptance | undefined = record.acceptance
    if (acceptance === undefined) return
    const ballot = model.view?.mode === 'ballot'
    const left = ballot ? Date.parse(model.view!.ends_at) - clock.now() : 0
    watch?.stop()
    watch = watchClaim(
      {
        statusUrl: acceptance.status_url,
        eventsUrl: acceptance.events_url,
        pollAfterMs: acceptance.poll_after_ms,
        quietMs: left > 0 ? left + parts.random() * drawSpreadMs : 0,
      },
      {
        status: api.status,
        login: async () => login,
        random: parts.random,
        tell: (settled) => dispatch({ type: 'settled', settled }),
      },
    )
  }

  return {
    async start() {
      show()
      if (campaignId === '') {
        dispatch({ type: 'view_lost', refused: { code: 'CAMPAIGN_NOT_FOUND' } })
        return
      }
      const first = look()
      signIn(await parts.login())
      await first
    },
    press: () => dispatch({ type: 'press' }),
    another: () => dispatch({ type: 'another' }),
    online: () => dispatch({ type: 'online' }),
    wake(jumped) {
      watch?.look()
      const stale = clock.now() - lookedAt > lookAgainAfterMs
      // Before the opening only a leap of the clock is worth a request: the countdown would be wrong.
      if (jumped || (stale && model.phase !== 'upcoming' && model.retryAt === undefined)) void look()
      else dispatch({ type: 'due' })
    },
    storageChanged(key) {
      if (login === undefined || claiming || key !== claimKey(campaignId, userOf(login))) return
      const theirs = store.read(campaignId, userOf(login))
      const news =
        theirs.coupon?.couponId !== model.coupon?.couponId || (theirs.acceptance && !record.acceptance)
      record = theirs
      if (news) resume()
    },
  }
}

interface Plan {
  timer?: ReturnType<typeof setTimeout>
}
type TokenOutcome = { kind: 'token'; token: ClaimToken } | Refusal | Lost
