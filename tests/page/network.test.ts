import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { held, problem } from './answers.ts'
import {
  browserProgram,
  openPage,
  phase,
  skipWithout,
  startBrowser,
  timeTrips,
  tokenAnswered,
  until,
} from './browser.ts'
import type { CampaignDouble } from './campaignDouble.ts'
import { type Double, login, startDouble } from './double.ts'

/** Poor networks, reloads, wrong clocks: nothing is lost, nothing is doubled, nothing is made up. */

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('the page on poor networks', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let double: Double
  let page: Page

  before(async () => {
    ;[browser, double] = await Promise.all([startBrowser(program!), startDouble()])
  })
  after(() => Promise.all([browser.close(), double.close()]))
  beforeEach(async () => {
    await page?.context().close()
    double.aheadMs = 0
    ;({ page } = await openPage(browser))
  })

  const visit = (campaign: CampaignDouble) =>
    page.goto(`${double.origin}/c/${campaign.id}#login=${login('ada')}`)
  const action = () => page.locator('#action')
  const status = async () => String(await page.locator('#status').textContent())
  const keys = (campaign: CampaignDouble) =>
    campaign.asked('POST', '/claims').map((each) => String(each.headers['idempotency-key']))

  test('a lost answer is called unknown and asked again with the same key, until the acceptance is heard', async () => {
    const campaign = double.campaign(-1_000)
    const again = held(problem(503, 'OUTCOME_UNKNOWN', { retry_after_ms: 300 }))
    campaign.claims.push('accept and lose', again.scripted)
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'unknown')
    assert.equal(await status(), "We didn't hear back. Checking; you can't lose your place.")
    again.letGo()
    await phase(page, 'accepted')
    assert.equal(campaign.asked('POST', '/claims').length, 3)
    assert.equal(new Set(keys(campaign)).size, 1)
  })

  test('without a network the claim waits, and goes out once it is back', async () => {
    const campaign = double.campaign(-1_000)
    const ahead = tokenAnswered(page)
    await visit(campaign)
    await phase(page, 'open')
    await ahead
    await page.context().setOffline(true)
    await action().click()
    await phase(page, 'unknown')
    const key = await page.evaluate(`JSON.parse(localStorage.getItem(
    Object.keys(localStorage).find((name) => name.startsWith('tidegate:claim:')))).key`)
    assert.equal(campaign.asked('POST', '/claims').length, 0)
    await page.context().setOffline(false)
    await phase(page, 'accepted')
    assert.deepEqual([...new Set(keys(campaign))], [key])
  })

  test('a reload while the claim is out repeats it with the same key', async () => {
    const campaign = double.campaign(-1_000)
    campaign.gate = new Promise(() => {})
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await until(() => campaign.asked('POST', '/claims').length === 1, 'the claim is received')
    const { promise, resolve: open } = Promise.withResolvers<void>()
    campaign.gate = promise
    await page.reload()
    await phase(page, 'unknown')
    open()
    await phase(page, 'accepted')
    assert.equal(new Set(keys(campaign)).size, 1)
  })

  test('a reload after the acceptance asks for its result and claims nothing', async () => {
    const campaign = double.campaign(-1_000)
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'accepted')
    await page.reload()
    await phase(page, 'accepted')
    campaign.settle({ status: 'DELIVERED' })
    await phase(page, 'delivered')
    await page.reload()
    await phase(page, 'delivered')
    assert.match(await status(), /^It's yours, valid until /)
    assert.equal(campaign.asked('POST', '/claims').length, 1)
  })

  test('a claim that was refused for now goes on after a reload', async () => {
    const campaign = double.campaign(-1_000)
    campaign.claims.push(problem(503, 'BUSY', { retry_after_ms: 60_000 }))
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'busy')
    await page.reload()
    await phase(page, 'accepted')
    assert.equal(new Set(keys(campaign)).size, 1)
  })

  test('without event streams the result is polled for', async () => {
    const campaign = double.campaign(-1_000)
    campaign.noEvents = true
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'accepted')
    const polls = () => campaign.seen.filter(({ path }) => /\/claims\/\w+\?/.test(path)).length
    await until(() => polls() >= 2, 'polls')
    campaign.settle({ status: 'REJECTED', reason: 'REJECTED_QUOTA' })
    await phase(page, 'sold_out')
    const asked = polls()
    await page.reload()
    await phase(page, 'open')
    assert.equal(polls(), asked, 'a final result is not asked for again')
    await action().click()
    await phase(page, 'accepted')
    assert.equal(new Set(keys(campaign)).size, 2, 'a new claim after a rejection has a new key')
  })

  test('after 10 s an acceptance is called slow, and still ends as delivered', async () => {
    const campaign = double.campaign(-1_000)
    await page.clock.install()
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'accepted')
    await page.clock.fastForward(10_500)
    await phase(page, 'slow')
    assert.equal(await status(), "You're still in. Leave if you like: it will be in your wallet.")
    campaign.settle({ status: 'DELIVERED' })
    await phase(page, 'delivered')
  })

  test('the countdown runs on the server’s clock, and shows it when the device’s is off', async () => {
    double.aheadMs = 240_000
    const campaign = double.campaign(9_000)
    const doubtMs = await timeTrips(page)
    await visit(campaign)
    await phase(page, 'upcoming')
    assert.match(String(await action().textContent()), /Opens in\s*00:0\d/)
    assert.match(
      String(await page.locator('#clock').textContent()),
      /^Your device's clock is 4 minutes slow\. Server time \d\d:\d\d:\d\d$/,
    )
    await phase(page, 'open')
    const late = Date.now() + double.aheadMs - Date.parse(campaign.view.starts_at)
    // By the device's clock it would be four minutes.
    assert.ok(late >= -(await doubtMs()) && late < 10_000, `${late}`)
  })

  test('the campaign last seen is shown while the network is away, and the page comes back by itself', async () => {
    const campaign = double.campaign(-1_000)
    await visit(campaign)
    await phase(page, 'open')
    const again = held(problem(503, 'UNAVAILABLE', { retry_after_ms: 300 }))
    campaign.views.push('lose', again.scripted)
    await page.reload()
    await phase(page, 'offline')
    assert.equal(await page.locator('#worth').textContent(), '¥20 off')
    again.letGo()
    await phase(page, 'open')
  })

  test('far ahead of the start nothing is fetched but the view; one look and the token come in the last minutes', async () => {
    const minute = 60_000
    const campaign = double.campaign(30 * minute)
    await page.clock.install()
    await visit(campaign)
    await phase(page, 'upcoming')
    const asked = () => campaign.seen.map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)
    await page.clock.fastForward(24 * minute)
    assert.deepEqual(asked(), [`GET ${campaign.id}`])
    double.aheadMs = 24 * minute
    // Both clocks go on together: the server's answers set the page's.
    for (let second = 0; second < 355; second += 5) {
      double.aheadMs += 5_000
      await page.clock.runFor(5_000)
    }
    await until(() => campaign.seen.length >= 3, 'look and token')
    assert.deepEqual(asked().sort(), [`GET ${campaign.id}`, `GET ${campaign.id}`, 'POST claim-tokens'])
    const look = campaign.asked('GET', campaign.id)[1]!
    assert.ok(look.headers['if-none-match'], 'the look carries the ETag of the view')
  })
})
