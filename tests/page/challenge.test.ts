import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { browserProgram, openPage, phase, skipWithout, startBrowser, until } from './browser.ts'
import { type ChallengePage, siteKey, startChallengePage } from './challengePage.ts'

/** The check before the claim token, from the real gate to the widget's frame and back, in a real browser. */

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('the check that a claim token asks for', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let gate: ChallengePage
  let page: Page
  let errors: string[]
  let users = 0

  before(async () => {
    ;[browser, gate] = await Promise.all([startBrowser(program!), startChallengePage('challenge')])
  })
  after(async () => {
    await browser?.close()
    await gate?.stop()
  })
  beforeEach(async () => {
    await page?.context().close()
    ;({ page, errors } = await openPage(browser))
    gate.widget.clear()
    gate.turnstile.fault = 'none'
    gate.turnstile.asked.length = 0
    await page.addInitScript(`addEventListener('securitypolicyviolation', (event) => {
      (window.violations ??= []).push(event.effectiveDirective + ' ' + event.blockedURI)
    })`)
  })

  const violations = () => page.evaluate<string[]>('window.violations ?? []')
  const status = async () => String(await page.locator('#status').textContent())
  const active = () => page.evaluate<string>('document.activeElement.id || document.activeElement.tagName')
  const human = () => page.frameLocator('#widget iframe').locator('#human')
  const solve = () => human().click()
  const visit = async (startsInMs: number) => {
    const campaign = await gate.campaign(startsInMs)
    await page.goto(await gate.address(campaign, `reader-${users++}`))
    return campaign
  }

  /** Keeps the page from hearing that a check is asked for, until the function that it gives is called. */
  const holdTokens = async () => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>()
    await page.route('**/claim-tokens', async (route) => {
      await held
      await route.continue()
    })
    return release
  }

  test('it comes before the opening, is solved by keyboard, and the press at zero is one request', async () => {
    const release = await holdTokens()
    await visit(20_000)
    await phase(page, 'upcoming')
    assert.deepEqual(gate.widget.asked, [], 'nothing of Turnstile before it is asked for')
    release()
    await phase(page, 'challenge')
    assert.match(
      await status(),
      /^Please confirm below that you're human, so that you're ready for \d\d:\d\d\.$/,
    )
    assert.match(String(await page.locator('#action').textContent()), /Opens in/)
    await human().waitFor()
    assert.equal(await active(), 'check-title', 'the focus is at the check')
    await page.keyboard.press('Tab')
    await page.keyboard.press('Space')
    await phase(page, 'upcoming')
    assert.equal(await page.locator('#check').isHidden(), true)
    assert.equal(await active(), 'status', 'the focus is not lost with the check')
    assert.equal(await page.locator('iframe').count(), 0)
    const [asked, ...more] = gate.turnstile.asked
    assert.match(asked!['response']!, /^0\.solved-/)
    assert.deepEqual(more, [])
    assert.deepEqual(gate.widget.rendered, [
      { sitekey: siteKey, action: 'claim-token', theme: 'auto', size: 'flexible', language: 'en' },
    ])
    await phase(page, 'open')
    const sent: string[] = []
    page.on('request', (request) => sent.push(new URL(request.url()).pathname.split('/').at(-1)!))
    await page.locator('#action').click()
    await phase(page, 'accepted')
    assert.equal(sent[0], 'claims')
    assert.deepEqual([await violations(), errors], [[], []])
  })

  test('the opening may pass meanwhile: the page says so, and the button comes with the answer', async () => {
    await visit(8_000)
    await phase(page, 'challenge')
    await page.locator('#before', { hasText: "It's open." }).waitFor()
    assert.equal(await page.locator('#action').count(), 0)
    await solve()
    await phase(page, 'open')
    await page.locator('#action').click()
    await phase(page, 'accepted')
  })

  test('a claim pressed before the check was known goes out by itself after it', async () => {
    const release = await holdTokens()
    await visit(-1_000)
    await phase(page, 'open')
    await page.locator('#action').click()
    await phase(page, 'sending')
    release()
    await phase(page, 'challenge')
    assert.equal(await status(), "Confirm below that you're human, and we'll send it for you.")
    await solve()
    await phase(page, 'accepted')
  })

  test('an answer that the verifier refuses brings a fresh check, and the third one a rest', async () => {
    gate.widget.mode = 'wrong'
    await visit(-1_000)
    await phase(page, 'challenge')
    for (const count of [1, 2]) {
      await solve()
      await until(() => gate.widget.rendered.length === count + 1, 'a fresh widget')
      assert.equal(await status(), "That check wasn't accepted. Please do it once more.")
      await page.locator('#check:not([hidden])').waitFor()
    }
    await solve()
    await phase(page, 'challenge_over')
    assert.match(await status(), /^The check wasn't accepted three times\. A new one comes in \d+ s\.$/)
    assert.equal(gate.turnstile.asked.length, 3)
    assert.equal(await page.locator('iframe').count(), 0)
  })

  test('an answer used before, as from another tab, is asked for once more', async () => {
    await page.route('**/claim-tokens', async (route) => {
      const headers = route.request().headers()
      if (headers['turnstile-response'] !== undefined && gate.turnstile.asked.length === 0)
        await fetch(route.request().url(), { method: 'POST', headers })
      await route.continue()
    })
    await visit(-1_000)
    await phase(page, 'challenge')
    await solve()
    await page.locator('#before', { hasText: "wasn't accepted" }).waitFor()
    await solve()
    await phase(page, 'open')
  })

  test('a check that runs out is replaced, and the page says why', async () => {
    gate.widget.mode = 'expire'
    await visit(-1_000)
    await phase(page, 'challenge')
    await solve()
    await page.locator('#before', { hasText: 'ran out of time' }).waitFor()
    gate.widget.mode = 'solve'
    await until(() => gate.widget.rendered.length === 2, 'a fresh widget')
    await solve()
    await phase(page, 'open')
    assert.equal(gate.turnstile.asked.length, 1)
  })

  test('a widget that is blocked, missing, broken or fails leads to one sentence and a retry that works', async () => {
    const blocked = gate.widget.script.replace('?', '*')
    await page.route(blocked, (route) => route.abort('blockedbyclient'))
    await visit(-1_000)
    const retry = async () => {
      await phase(page, 'challenge_lost')
      assert.match(await status(), /^The check couldn't be loaded\. A content blocker or the network/)
      assert.equal(await page.locator('#action').textContent(), 'Try again')
      await page.locator('#action').click()
    }
    await retry()
    await phase(page, 'challenge_lost')
    await page.unroute(blocked)
    for (const fault of ['gone', 'empty'] as const) {
      gate.widget.fault = fault
      await retry()
    }
    gate.widget.fault = 'none'
    await retry()
    for (const mode of ['error', 'unsupported'] as const) {
      gate.widget.mode = mode
      await solve()
      await retry()
    }
    gate.widget.mode = 'solve'
    await solve()
    await phase(page, 'open')
    assert.deepEqual(await violations(), [])
  })

  test('offline, the check waits for the network and comes back with it', async () => {
    const blocked = gate.widget.script.replace('?', '*')
    await page.route(blocked, (route) => route.abort('internetdisconnected'))
    await visit(-1_000)
    await phase(page, 'challenge_lost')
    await page.unroute(blocked)
    await page.context().setOffline(true)
    await page.context().setOffline(false)
    await phase(page, 'challenge')
    await solve()
    await phase(page, 'open')
  })

  test('while the verifier is away the answer is no wrong one: the page waits and asks anew', async () => {
    gate.turnstile.fault = 'fail'
    await visit(-1_000)
    await phase(page, 'challenge')
    await solve()
    await phase(page, 'busy')
    gate.turnstile.fault = 'none'
    await phase(page, 'challenge')
    assert.doesNotMatch(await status(), /wasn't accepted/)
    await solve()
    await phase(page, 'open')
  })

  test('who leaves and comes back finds the check again, and a reader in the fine print is not torn away', async () => {
    await visit(-1_000)
    await phase(page, 'challenge')
    await human().waitFor()
    const address = page.url()
    await page.goto(`${gate.world.url}/wallet`)
    await page.goto(address)
    await phase(page, 'challenge')
    await solve()
    await phase(page, 'open')
    await page.locator('#action').click()
    await phase(page, 'accepted')

    await page.context().close()
    ;({ page } = await openPage(browser))
    const release = await holdTokens()
    await visit(-1_000)
    await phase(page, 'open')
    await page.locator('#terms-title').focus()
    release()
    await phase(page, 'challenge')
    await human().waitFor()
    assert.equal(await active(), 'terms-title')
  })

  test('the policy lets in that one origin, on the campaign page alone, and is enforced', async () => {
    const campaign = await gate.campaign(-1_000)
    const answer = await page.goto(await gate.address(campaign, `reader-${users++}`))
    const policy = new Map(
      String(answer!.headers()['content-security-policy'])
        .split('; ')
        .map((directive) => directive.split(/ (.*)/s).slice(0, 2) as [string, string]),
    )
    assert.equal(policy.get('frame-src'), gate.widget.origin)
    const scripts = policy.get('script-src')!.split(' ')
    assert.ok(scripts.includes(gate.widget.origin))
    for (const source of scripts)
      assert.match(source, /^'self'$|^'sha256-[\w+/=]+'$|^http:\/\/127\.0\.0\.1:\d+$/)
    assert.equal(policy.get('default-src'), "'none'")
    assert.equal(answer!.headers()['referrer-policy'], 'strict-origin')
    await phase(page, 'challenge')
    assert.deepEqual(await violations(), [])
    const stranger = gate.turnstile.url
    await page.evaluate(`(() => {
      const script = document.createElement('script')
      script.src = ${JSON.stringify(stranger)}
      const frame = document.createElement('iframe')
      frame.src = ${JSON.stringify(stranger)}
      document.body.append(script, frame)
    })()`)
    await page.waitForFunction('window.violations?.length === 2')
    const found = (await violations()).map((violation) => violation.split(' ')[0]).sort()
    assert.deepEqual(found, ['frame-src', 'script-src-elem'])
    for (const path of ['/wallet', '/login']) {
      const { headers } = await fetch(gate.world.url + path)
      assert.doesNotMatch(headers.get('content-security-policy')!, /127\.0\.0\.1|frame-src/)
      assert.match(headers.get('content-security-policy')!, /require-trusted-types-for 'script'/)
      assert.equal(headers.get('referrer-policy'), 'no-referrer')
    }
  })
})
