import type { Benefit } from '../../../schema/rules.ts'
import type { CouponState } from '../../../schema/states.ts'
import { brand } from '../brand.ts'
import { benefitLines, type Language, localeOf, moment } from './format.ts'
import { chosenLanguage, keepLanguage } from './language.ts'
import { adoptLogin, currentLogin } from './login.ts'
import { browserStore, uuid } from './store.ts'

/** Composition root of the wallet at `/wallet`: the reader's coupons, newest first; `#coupon=<id>` marks one. */

interface WalletCoupon {
  coupon_id: string
  campaign_id: string
  name: string
  state: CouponState
  benefit: Benefit
  valid_from: string
  valid_to: string
}

const texts = {
  en: {
    heading: 'My coupons',
    loading: 'Fetching your coupons…',
    empty: 'No coupons yet. They appear here as soon as you get one.',
    signedOut: 'Sign in to see your coupons.',
    signIn: 'Sign in',
    lost: 'No connection. Trying again for you.',
    more: 'Show more',
    others: 'Offers you have seen here',
    noOthers: 'No other offers seen on this device yet.',
    valid: 'valid until {t}',
    states: {
      ISSUING: 'being issued',
      AVAILABLE: 'ready to use',
      RESERVED: 'in an order',
      USED: 'used',
      EXPIRED: 'expired',
      REVOKED: 'withdrawn',
    },
    otherLanguage: '中文',
  },
  zh: {
    heading: '我的券',
    loading: '正在读取您的券…',
    empty: '还没有券，领到后会出现在这里。',
    signedOut: '登录后可查看您的券。',
    signIn: '登录',
    lost: '网络不通，正在为您重试。',
    more: '显示更多',
    others: '您在这里看过的活动',
    noOthers: '这台设备上还没有看过其他活动。',
    valid: '有效期至 {t}',
    states: {
      ISSUING: '发放中',
      AVAILABLE: '可使用',
      RESERVED: '订单占用中',
      USED: '已使用',
      EXPIRED: '已过期',
      REVOKED: '已收回',
    },
    otherLanguage: 'English',
  },
} satisfies Record<Language, unknown>

const retryMs = 2_000
const retryMaxMs = 30_000

type Stage = 'loading' | 'ready' | 'signedOut' | 'lost'

const by = <T extends HTMLElement = HTMLElement>(id: string) => document.getElementById(id) as T
const store = browserStore(storage(), uuid)
const coupons: WalletCoupon[] = []
let language = chosenLanguage(new URLSearchParams(location.search))
let stage: Stage = 'loading'
let cursor: string | null = null
let failures = 0

function storage(): Storage | undefined {
  try {
    return localStorage
  } catch {
    return undefined
  }
}

function marked(): string | undefined {
  const part = location.hash
    .slice(1)
    .split('&')
    .find((piece) => piece.startsWith('coupon='))
  return part && decodeURIComponent(part.slice('coupon='.length))
}

function draw(): void {
  const text = texts[language]
  document.documentElement.lang = localeOf[language]
  document.title = `${text.heading} · ${brand.name}`
  by('heading').textContent = text.heading
  by('language').textContent = text.otherLanguage
  by('language').lang = language === 'en' ? localeOf.zh : 'en'
  by('language').hidden = false
  const status = stage === 'ready' ? (coupons.length === 0 ? text.empty : '') : text[stage]
  if (by('status').textContent !== status) by('status').textContent = status
  by('coupons').replaceChildren(...coupons.map(card))
  const signIn = by<HTMLAnchorElement>('sign-in')
  signIn.hidden = stage !== 'signedOut'
  signIn.href = brand.links.signIn(location.pathname + location.search)
  signIn.textContent = text.signIn
  by('more').hidden = cursor === null || stage !== 'ready'
  by('more').textContent = text.more
  drawSeen()
}

function card(coupon: WalletCoupon): HTMLElement {
  const text = texts[language]
  const until = moment(Date.parse(coupon.valid_to), Date.now(), language)
  const lines = benefitLines(coupon.benefit, language)
  const state = text.states[coupon.state]
  const facts = coupon.state === 'AVAILABLE' ? text.valid.replace('{t}', until) : state
  const item = document.createElement('li')
  const box = element('div', 'card')
  if (coupon.state === 'USED' || coupon.state === 'EXPIRED' || coupon.state === 'REVOKED') {
    box.classList.add('spent')
  }
  if (coupon.coupon_id === marked()) box.classList.add('new')
  box.append(
    element('strong', '', lines.filter(Boolean).join(language === 'en' ? ' ' : '，') || coupon.name),
    element('small', '', `${coupon.name} · ${facts}`),
  )
  item.append(box)
  return item
}

function drawSeen(): void {
  const text = texts[language]
  const seen = store.seenViews()
  by('others').hidden = seen.length === 0 && location.hash !== '#others'
  by('others-heading').textContent = seen.length === 0 ? text.noOthers : text.others
  by('seen').replaceChildren(
    ...seen.map((view) => {
      const item = document.createElement('li')
      const link = element('a', 'card') as HTMLAnchorElement
      link.href = `/c/${encodeURIComponent(view.id)}`
      const lines = benefitLines(view.benefit, language)
      const worth = lines.filter(Boolean).join(language === 'en' ? ' ' : '，')
      link.append(element('strong', '', worth || view.name), element('small', '', view.name))
      item.append(link)
      return item
    }),
  )
}

function element(tag: string, className: string, text = ''): HTMLElement {
  const made = document.createElement(tag)
  made.className = className
  made.textContent = text
  return made
}

/** Fetches the next page of the wallet; a network that fails is tried again with back-off. */
async function load(stale?: string): Promise<void> {
  const login = await currentLogin(stale)
  if (login === undefined) return show('signedOut')
  const path = `/v1/me/coupons${cursor === null ? '' : `?cursor=${encodeURIComponent(cursor)}`}`
  try {
    const signal = AbortSignal.timeout(8_000)
    const response = await fetch(path, {
      headers: { Authorization: `Bearer ${login}` },
      cache: 'no-store',
      signal,
    })
    if (response.status === 401) return stale === undefined ? load(login) : show('signedOut')
    if (!response.ok) throw new Error(`status ${response.status}`)
    const page = (await response.json()) as { data: WalletCoupon[]; next_cursor: string | null }
    coupons.push(...page.data)
    cursor = page.next_cursor ?? null
    failures = 0
    show('ready')
  } catch {
    show('lost')
    const wait = Math.min(retryMs * 2 ** failures++, retryMaxMs)
    setTimeout(load, wait * (1 + Math.random() / 2))
  }
}

function show(next: Stage): void {
  stage = next
  draw()
}

adoptLogin()
by('language').addEventListener('click', () => {
  language = language === 'en' ? 'zh' : 'en'
  keepLanguage(language)
  draw()
})
by('more').addEventListener('click', () => {
  if (stage !== 'ready') return
  show('loading')
  void load()
})
draw()
void load()
