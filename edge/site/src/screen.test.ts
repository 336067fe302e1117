/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Benefit } from '../../../schema/rules.ts'
import { benefitLines, countdown, type Language, money } from './format.ts'
import { screenOf } from './screen.ts'
import { stateNames, stateOf } from './states.ts'
import { words } from './words.ts'

process.env.TZ = 'Asia/Shanghai'

function shown(name: string, language: Language) {
  const { model, now, deviceAhead } = stateOf(name, new URLSearchParams())
  return screenOf(model, { now, language, deviceAhead, returnTo: '/c/x' })
}
const line = (name: string, language: Language) => {
  const { before, count, after } = shown(name, language).status
  return before + count + after
}

test('every state of the page’s table says exactly its words, in both languages', () => {
  const table: Record<string, [action: string | undefined, en: string, zh: string]> = {
    upcoming: [
      'Opens in',
      "Opens at 10:00. We'll enable the button for you.",
      '10:00 开抢，到点按钮会自动亮起。',
    ],
    open: ['Get it', 'One per person.', '每人限领一张。'],
    sending: ['Sending…', 'Sending…', '正在提交…'],
    accepted: [
      undefined,
      "You're in. Your coupon is being issued, usually within a second or two.",
      '已受理，券正在发放，通常只需一两秒。',
    ],
    delivered: [
      'Use it',
      "It's yours, valid until Jan 4, 2027, 10:00.",
      '领取成功，有效期至 2027年1月4日 10:00。',
    ],
    slow: [
      undefined,
      "You're still in. Leave if you like: it will be in your wallet.",
      '名额已保留，可先离开，到账后会出现在卡包。',
    ],
    sold_out: [
      'See others',
      'All gone this time. Nothing was charged or used.',
      '本轮已抢光，没有扣除您的任何资格。',
    ],
    limit_reached: ['Open my coupon', 'You already have yours.', '您已领取过这张券。'],
    busy: ['Again in', 'Many people at once. Trying again for you in 3 s.', '人太多啦，3 秒后为您自动重试。'],
    unknown: [
      'Checking…',
      "We didn't hear back. Checking; you can't lose your place.",
      '网络没有回音，正在为您确认，不会丢失名额。',
    ],
  }
  for (const [name, [action, en, zh]] of Object.entries(table)) {
    assert.equal(line(name, 'en'), en)
    assert.equal(line(name, 'zh'), zh)
    assert.equal(shown(name, 'en').action?.label, action, name)
  }
  assert.deepEqual(
    ['open', 'delivered', 'sold_out', 'limit_reached'].map((name) => shown(name, 'zh').action?.label),
    ['立即领取', '去使用', '看看其他', '查看我的券'],
  )
})

test('no state is left without words, and no blank in them is left unfilled', () => {
  for (const name of stateNames) {
    for (const language of ['en', 'zh'] as const) {
      const screen = shown(name, language)
      const text = JSON.stringify([screen.status, screen.action, screen.stub, screen.terms, screen.clock])
      assert.ok(screen.status.before.length > 3, name)
      assert.doesNotMatch(text, /\{\w\}|undefined|NaN|Invalid/, `${name} ${language}`)
    }
  }
})

test('only a state that waits for the reader offers a button or a link, and never two', () => {
  for (const name of ['accepted', 'slow', 'entered', 'review'])
    assert.equal(shown(name, 'en').action, undefined)
  for (const name of ['upcoming', 'sending', 'busy', 'unknown', 'offline', 'loading']) {
    assert.equal(shown(name, 'en').action?.enabled, false, name)
  }
  for (const name of ['paused', 'ended', 'not_eligible', 'signed_out', 'withdrawn', 'failed', 'missing']) {
    assert.equal(shown(name, 'en').action?.enabled, true, name)
  }
})

test('both languages have the same texts', () => {
  for (const group of ['status', 'action', 'fact', 'clock'] as const) {
    assert.deepEqual(Object.keys(words.en[group]).sort(), Object.keys(words.zh[group]).sort())
  }
})

test('a clock that is off is shown against the server’s', () => {
  assert.equal(shown('clock_off', 'en').clock, "Your device's clock is 4 minutes fast. Server time 09:55:55")
  assert.equal(shown('upcoming', 'en').clock, '')
})

test('validity is told in the reader’s zone, and in the shop’s where it differs', () => {
  const { model, now } = stateOf('delivered', new URLSearchParams())
  const away = { ...model, view: { ...model.view!, time_zone: 'Europe/Berlin' } }
  const terms = screenOf(away, { now, language: 'en', deviceAhead: 0, returnTo: '/' }).terms.map((term) =>
    term.join(': '),
  )
  assert.ok(terms.includes('Valid until: Jan 4, 2027, 10:00'), terms.join('\n'))
  assert.ok(terms.includes("On the shop's clock (Europe/Berlin): Jan 4, 2027, 03:00"))
  assert.equal(shown('delivered', 'en').terms.filter(([label]) => label.includes('shop')).length, 0)
})

test('money keeps every digit and has its currency’s decimals', () => {
  assert.equal(money({ currency: 'CNY', minor: '2000' }, 'en'), '¥20')
  assert.equal(money({ currency: 'CNY', minor: '2050' }, 'zh'), '¥20.50')
  assert.equal(money({ currency: 'JPY', minor: '128000' }, 'en'), '¥128,000')
  assert.equal(money({ currency: 'KWD', minor: '1234567' }, 'en').replaceAll(/\s/g, ' '), 'KWD 1,234.567')
  assert.equal(money({ currency: 'USD', minor: '5' }, 'en'), '$0.05')
  assert.equal(money({ currency: 'USD', minor: '999999999999999' }, 'en'), '$9,999,999,999,999.99')
})

test('every kind of benefit is said in words', () => {
  const cash = (minor: string) => ({ currency: 'CNY', minor })
  const said = (benefit: Benefit) => [
    benefitLines(benefit, 'en').join('|'),
    benefitLines(benefit, 'zh').join('|'),
  ]
  const percent: Benefit = {
    kind: 'percent_off',
    basis_points: 1500,
    cap: cash('5000'),
    threshold: cash('10000'),
  }
  assert.deepEqual(said({ kind: 'amount_off', amount: cash('2000'), threshold: cash('10000') }), [
    '¥20 off|over ¥100',
    '减 ¥20|满 ¥100 可用',
  ])
  assert.deepEqual(said(percent), ['15% off|over ¥100, up to ¥50', '8.5 折|满 ¥100 可用，最多减 ¥50'])
  assert.deepEqual(said({ kind: 'fixed_price', price: cash('990') }), ['For ¥9.90|', '¥9.90 特价|'])
  assert.deepEqual(said({ kind: 'free_shipping', threshold: cash('0') }), ['Free shipping|', '免运费|'])
})

test('the countdown shows 00:01 until the last moment, and days when it is far', () => {
  assert.equal(countdown(1, 'en'), '00:01')
  assert.equal(countdown(0, 'en'), '00:00')
  assert.equal(countdown(-5, 'en'), '00:00')
  assert.equal(countdown(245_000, 'en'), '04:05')
  assert.equal(countdown(3_600_000, 'en'), '01:00:00')
  assert.equal(countdown(2 * 86_400_000 + 3_723_000, 'zh'), '2 天 01:02:03')
})
