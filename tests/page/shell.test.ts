import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { buildSite } from '../../edge/site/build.ts'
import { browserProgram, openPage, phase, skipWithout, startBrowser } from './browser.ts'
import { type Double, login, startDouble } from './double.ts'

/** What holds around the states: size, policy, no script, keyboard, motion, language, wallet, sign-in. */

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('what holds around the page’s states', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let double: Double
  let page: Page
  let errors: string[]

  before(async () => {
    ;[browser, double] = await Promise.all([startBrowser(program!), startDouble()])
  })
  after(() => Promise.all([browser.close(), double.close()]))
  beforeEach(async () => {
    await page?.context().close()
    ;({ page, errors } = await openPage(browser))
  })

  const preview = (name: string, more = '') => `${double.origin}/c/example?state=${name}${more}`
  const active = () => page.evaluate<string>('document.activeElement.id')

  test('the campaign page with its style and script is at most 30 KB gzip, and one request', async () => {
    const { bytes_gzip } = await buildSite()
    assert.ok(bytes_gzip > 5_000 && bytes_gzip <= 30 * 1024, `${bytes_gzip}`)
    const campaign = double.campaign(-1_000)
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.goto(`${double.origin}/c/${campaign.id}`)
    await phase(page, 'signed_out')
    assert.deepEqual(asked, [`/c/${campaign.id}`, `/v1/campaigns/${campaign.id}`])
  })

  test('the policy allows the page’s own script and style and nothing else', async () => {
    const campaign = double.campaign(-1_000)
    const answer = await page.goto(`${double.origin}/c/${campaign.id}`)
    const policy = String(answer!.headers()['content-security-policy'])
    assert.doesNotMatch(policy, /unsafe|https?:|\*/)
    assert.match(policy, /default-src 'none'/)
    await phase(page, 'signed_out')
    assert.deepEqual(errors, [])
    await page.evaluate(`(() => {
    const script = document.createElement('script')
    try { script.textContent = 'window.injected = true' } catch {}
    document.body.append(script)
    const style = document.createElement('style')
    style.textContent = 'body { display: none }'
    document.body.append(style)
  })()`)
    assert.equal(await page.evaluate('window.injected'), undefined)
    assert.equal(await page.locator('body').isVisible(), true)
  })

  test('a page without script shows the button, and says in both languages why it needs script', async () => {
    const { page: plain } = await openPage(browser, { javaScriptEnabled: false })
    await plain.goto(`${double.origin}/c/example`)
    assert.equal(await plain.locator('h1').isVisible(), true)
    assert.equal(await plain.locator('#action').isVisible(), true)
    const why = String(await plain.locator('.noscript').textContent())
    assert.match(why, /needs JavaScript/)
    assert.match(why, /需要 JavaScript/)
    await plain.context().close()
  })

  test('the whole claim can be made by keyboard, and the focus is never lost', async () => {
    const campaign = double.campaign(8_000)
    await page.goto(`${double.origin}/c/${campaign.id}#login=${login('ada')}`)
    await phase(page, 'upcoming')
    const order: string[] = []
    for (let i = 0; i < 3; i++) {
      await page.keyboard.press('Tab')
      order.push(await page.evaluate('document.activeElement.id || document.activeElement.tagName'))
    }
    assert.deepEqual(order, ['language', 'terms-title', 'action'])
    assert.notEqual(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'), 'none')
    await phase(page, 'open')
    assert.equal(await active(), 'action', 'the focus waits on the button when it comes alive')
    await page.keyboard.press('Enter')
    await phase(page, 'accepted')
    assert.equal(await active(), 'status')
    campaign.settle({ status: 'DELIVERED' })
    await phase(page, 'delivered')
    await page.keyboard.press('Tab')
    assert.equal(await active(), 'action')
  })

  test('the status line is a polite live region, and its seconds tick in silence', async () => {
    await page.goto(preview('busy'))
    await phase(page, 'busy')
    assert.equal(await page.locator('#status').getAttribute('aria-live'), 'polite')
    assert.equal(await page.locator('#count').getAttribute('aria-live'), 'off')
    assert.equal(await page.locator('#action [aria-live], #action [role]').count(), 0)
  })

  test('with reduced motion nothing moves', async () => {
    for (const name of ['sending', 'accepted', 'delivered']) {
      await page.emulateMedia({ reducedMotion: 'reduce' })
      await page.goto(preview(name))
      await phase(page, name)
      assert.equal(await page.evaluate('document.getAnimations().length'), 0, name)
    }
    await page.emulateMedia({ reducedMotion: 'no-preference' })
    await page.goto(preview('sending'))
    await phase(page, 'sending')
    assert.ok(Number(await page.evaluate('document.getAnimations().length')) > 0)
  })

  test('the countdown’s digits have one width', async () => {
    await page.goto(preview('upcoming'))
    await phase(page, 'upcoming')
    const widths = (await page.evaluate(`['00:00', '11:11', '48:48'].map((text) => {
    const time = document.querySelector('#action .time')
    time.style.minWidth = 0
    time.textContent = text
    return time.getBoundingClientRect().width
  })`)) as number[]
    assert.equal(new Set(widths).size, 1, String(widths))
  })

  test('the page speaks the reader’s language, and keeps another choice', async () => {
    const { page: chinese } = await openPage(browser, { locale: 'zh-CN' })
    await chinese.goto(preview('open'))
    await phase(chinese, 'open')
    assert.equal(await chinese.locator('#action').textContent(), '立即领取')
    assert.equal(await chinese.evaluate('document.documentElement.lang'), 'zh-Hans')
    await chinese.locator('#language').click()
    assert.equal(await chinese.locator('#action').textContent(), 'Get it')
    await chinese.reload()
    await phase(chinese, 'open')
    assert.equal(await chinese.locator('#action').textContent(), 'Get it')
    await chinese.context().close()
  })

  test('states on demand are for local hosts only', async () => {
    const campaign = double.campaign(-1_000)
    await page.route('http://shop.example/**', async (route) => {
      const path = route.request().url().replace('http://shop.example', double.origin)
      await route.fulfill({ response: await route.fetch({ url: path }) })
    })
    const asked: string[] = []
    page.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await page.goto(`http://shop.example/c/${campaign.id}?state=sold_out`)
    await phase(page, 'signed_out')
    assert.ok(!asked.includes('/assets/states.js'))
  })

  test('the wallet lists the coupons, marks the new one, and passes axe', async () => {
    const coupon = (id: string, state: string) => ({
      coupon_id: id,
      campaign_id: 'c1',
      name: 'Winter morning coffee',
      state,
      benefit: {
        kind: 'amount_off',
        amount: { currency: 'CNY', minor: '2000' },
        threshold: { currency: 'CNY', minor: '10000' },
      },
      valid_from: '2026-12-05T02:00:00Z',
      valid_to: '2030-01-04T02:00:00Z',
    })
    double.coupons = [coupon('k1', 'AVAILABLE'), coupon('k2', 'USED')]
    await page.goto(`${double.origin}/wallet#coupon=k1&login=${login('ada')}`)
    await page.locator('.card.new').waitFor()
    assert.equal(new URL(page.url()).hash, '#coupon=k1')
    const cards = await page.locator('#coupons .card').allTextContents()
    assert.match(cards[0]!, /¥20 off over ¥100.*valid until/)
    assert.match(cards[1]!, /used/)
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme })
      const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze()
      assert.deepEqual(violations, [])
      await page.screenshot({
        path: `${import.meta.dirname}/screenshots/wallet-${colorScheme}-360.png`,
      })
    }
    double.coupons = []
    await page.reload()
    await page.locator('#status', { hasText: 'No coupons yet' }).waitFor()
  })

  test('the wallet of a reader who isn’t signed in leads to the sign-in and back', async () => {
    await page.goto(`${double.origin}/wallet`)
    await page.locator('#sign-in').click()
    await page.locator('#token').fill(login('ada'))
    const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze()
    assert.deepEqual(violations, [])
    await page.locator('#go').click()
    await page.locator('#status', { hasText: 'No coupons yet' }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/wallet')
  })

  test('the sign-in never leads a login away from this site', async () => {
    for (const target of [
      'https://evil.example/',
      '//evil.example/x',
      'javascript:alert(1)',
      '/\\evil.example',
    ]) {
      await page.goto(`${double.origin}/login?return_to=${encodeURIComponent(target)}`)
      await page.locator('#token').fill(login('ada'))
      await page.locator('#go').click()
      await page.waitForURL('**/wallet*')
      assert.equal(new URL(page.url()).origin, double.origin)
    }
  })
})
