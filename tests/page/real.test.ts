import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Browser } from 'playwright-core'
import { openCampaign } from '../../loadtest/traffic/campaign.ts'
import { type Stack, startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { browserProgram, openPage, phase, skipWithout, startBrowser } from './browser.ts'

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

/** The page against everything it really talks to: worker runtime, Redis, core, Postgres. */
describe('the page on the real stack', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let stack: Stack

  before(async () => {
    ;[browser, stack] = await Promise.all([
      startBrowser(program!),
      startStack({ dir: temporaryFolder('page') }),
    ])
  })
  after(async () => {
    await browser?.close()
    await stack?.stop()
  })

  const campaign = (quota: number, startsInMs: number) =>
    openCampaign(stack, {
      name: 'Page',
      quota,
      startsAtMs: Date.now() + startsInMs,
      endsAtMs: Date.now() + 3_600_000,
    })

  async function visit(campaignId: string, user: string) {
    const opened = await openPage(browser)
    const login = await stack.mintLogin({ user })
    await opened.page.goto(`${stack.endpoints.edge}/c/${campaignId}#login=${login}`)
    return opened
  }

  test('one reader waits for the start, gets the coupon, finds it after a reload and in the wallet', async () => {
    const campaignId = await campaign(1, 12_000)
    const { page, errors } = await visit(campaignId, 'ada')
    await phase(page, 'upcoming')
    await phase(page, 'open')
    await page.locator('#action').click()
    await phase(page, 'delivered')
    assert.match(String(await page.locator('#status').textContent()), /^It's yours, valid until /)
    await page.reload()
    await phase(page, 'delivered')
    await page.locator('#action').click()
    await page.locator('.card.new').waitFor()
    assert.equal(new URL(page.url()).pathname, '/wallet')
    assert.deepEqual(errors, [])

    const late = await visit(campaignId, 'ben')
    await late.page
      .locator('html:is([data-phase="open"], [data-phase="sold_out"])')
      .waitFor({ state: 'attached' })
    // In one step: the page may hear of it by itself between a look and a press.
    await late.page.evaluate(`(() => {
      if (document.documentElement.dataset.phase === 'open') document.querySelector('#action').click()
    })()`)
    await phase(late.page, 'sold_out')
  })

  test('who has the coupon already is told so on another device', async () => {
    const campaignId = await campaign(10, -1_000)
    const first = await visit(campaignId, 'cid')
    await phase(first.page, 'open')
    await first.page.locator('#action').click()
    await phase(first.page, 'delivered')
    const second = await visit(campaignId, 'cid')
    await phase(second.page, 'open')
    await second.page.locator('#action').click()
    await phase(second.page, 'limit_reached')
  })

  test('an address that no campaign has, and a reader who isn’t signed in, are told the next step', async () => {
    const { page } = await visit('c000000000000000000000000', 'ada')
    await phase(page, 'missing')
    const stranger = await openPage(browser)
    const answer = await stranger.page.goto(`${stack.endpoints.edge}/c/${await campaign(1, -1_000)}`)
    assert.match(
      String(answer!.headers()['content-security-policy']),
      /^default-src 'none'; script-src 'self' 'sha256-/,
    )
    await phase(stranger.page, 'signed_out')
    assert.match(String(await stranger.page.locator('#action').getAttribute('href')), /^\/login\?/)
  })
})
