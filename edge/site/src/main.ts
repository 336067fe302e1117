import { httpApi } from './api.ts'
import { challengeBox } from './challenge.ts'
import { serverClock } from './clock.ts'
import { Controller } from './controller.ts'
import { pageOf } from './draw.ts'
import { chosenLanguage, keepLanguage } from './language.ts'
import { adoptLogin, currentLogin } from './login.ts'
import type { Model } from './model.ts'
import { type Surroundings, screenOf } from './screen.ts'
import { browserStore, uuid } from './store.ts'

/** Composition root of the campaign page, at `/c/{campaign_id}`. */

/** The device's clock leapt when it and the page's own steady one went apart by more than this. */
const leapMs = 1_500

const query = new URLSearchParams(location.search)
const campaignId = decodeURIComponent(/^\/c\/([^/]+)/.exec(location.pathname)?.[1] ?? '')
const clock = serverClock(Date.now)
let language = chosenLanguage(query)
let shown: Model
let ticking: ReturnType<typeof setTimeout> | undefined
/** Set while one state is shown for looking at: nothing moves then, and a press does nothing. */
let frozen: Pick<Surroundings, 'now' | 'deviceAhead'> | undefined

const page = pageOf(document, {
  press: () => frozen ?? claims.press(),
  another: () => frozen ?? claims.another(),
  language() {
    language = language === 'en' ? 'zh' : 'en'
    keepLanguage(language)
    show(shown)
  },
})

function around(): Surroundings {
  const returnTo = location.pathname + location.search
  return { now: clock.now(), deviceAhead: clock.deviceAhead(), ...frozen, language, returnTo }
}

/** The start, where the page counts down to it. */
function startOf({ phase, view }: Model, now: number): number | undefined {
  const startsAt = phase === 'upcoming' || phase === 'challenge' ? Date.parse(view?.starts_at ?? '') : 0
  return phase === 'upcoming' || startsAt > now ? startsAt : undefined
}

/** Draws, and again whenever a second that is on the page has passed. */
function show(model: Model): void {
  shown = model
  const surroundings = around()
  page.draw(screenOf(model, surroundings), language)
  clearTimeout(ticking)
  if (frozen || document.hidden) return
  const { now } = surroundings
  const target = model.retryAt ?? startOf(model, now)
  if (target === undefined && clock.deviceAhead() === 0) return
  const left = target === undefined ? 1000 - (now % 1000) : (target - now) % 1000
  ticking = setTimeout(() => show(shown), left > 0 ? left + 1 : 1000)
}

adoptLogin()

function storage(): Storage | undefined {
  try {
    return localStorage
  } catch {
    // Refused altogether, as with all cookies blocked: the store keeps to memory.
    return undefined
  }
}

const store = browserStore(storage(), uuid)
const challenge = challengeBox({
  box: document.getElementById('widget')!,
  source: document.querySelector<HTMLMetaElement>('meta[name="challenge"]')?.content,
  language: () => language,
  solved: (answer) => claims.challenged({ type: 'challenge_solved', answer }),
  expired: () => claims.challenged({ type: 'challenge_expired' }),
  failed: () => claims.challenged({ type: 'challenge_failed' }),
})
const claims: Controller = new Controller({
  challenge,
  campaignId,
  api: httpApi(store.deviceId(), clock.learn),
  store,
  clock,
  login: currentLogin,
  uuid,
  random: Math.random,
  show,
})

function watchSurroundings(): void {
  const drift = () => Date.now() - performance.now()
  let steady = drift()
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) return
    const jumped = Math.abs(drift() - steady) > leapMs
    steady = drift()
    claims.wake(jumped)
  })
  addEventListener('online', () => claims.online())
  addEventListener('storage', (event) => claims.storageChanged(event.key))
}

const local = location.hostname === '127.0.0.1' || location.hostname === 'localhost'
const preview = local ? query.get('state') : null
if (preview === null) {
  watchSurroundings()
  void claims.start()
} else {
  // Every state on demand, for looking at: a module of its own, so that no customer pays for it.
  const path = '/assets/states.js'
  const { stateOf } = (await import(path)) as typeof import('./states.ts')
  const { model, now, deviceAhead } = stateOf(preview, query)
  frozen = { now, deviceAhead }
  show(model)
}
