import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Browser, Page } from 'playwright-core'
import { problem } from './answers.ts'
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

/** The path of a claim in a real browser, from before the opening to the coupon. */

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('the page’s path of a claim', { skip: skipWithout(program) }, () => {
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

  const visit = (campaign: CampaignDouble, user = 'ada') =>
    page.goto(`${double.origin}/c/${campaign.id}#login=${login(user)}`)
  const action = () => page.locator('#action')
  const status = async () => String(await page.locator('#status').textContent())

  test('before the opening the page asks for the view and the token only; the press at zero is one request', async () => {
    const campaign = double.campaign(9_000)
    const doubtMs = await timeTrips(page)
    await visit(campaign)
    await phase(page, 'upcoming')
    assert.match(await status(), /^Opens at \d\d:\d\d\. We'll enable the button for you\.$/)
    assert.equal(await action().getAttribute('aria-disabled'), 'true')
    assert.match(String(await action().textContent()), /Opens in\s*00:0\d/)
    await action().click({ force: true })

    await phase(page, 'open')
    const opened = Date.now()
    const startsAt = Date.parse(campaign.view.starts_at)
    assert.ok(
      // A second for the page, and two for a machine that stalls before we see it.
      opened >= startsAt - (await doubtMs()) && opened < startsAt + 3_000,
      `opened ${opened - startsAt} ms after the start`,
    )
    const before = campaign.seen.map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)
    assert.deepEqual(before, [`GET ${campaign.id}`, 'POST claim-tokens'])

    await action().click()
    await phase(page, 'accepted')
    const sent = campaign.seen.slice(2).map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)
    assert.equal(sent[0], 'POST claims')
    const [claim] = campaign.asked('POST', '/claims')
    assert.match(String(claim!.headers['idempotency-key']), /^[0-9a-f-]{36}$/)
    assert.ok(claim!.headers['claim-token'])
    assert.equal(
      claim!.headers['device-id'],
      campaign.asked('POST', '/claim-tokens')[0]!.headers['device-id'],
    )
    assert.equal(claim!.headers['content-length'], '0')

    campaign.settle({ status: 'DELIVERED' })
    await phase(page, 'delivered')
    assert.match(await status(), /^It's yours, valid until /)
    assert.match(String(await action().getAttribute('href')), /^\/wallet#coupon=coupon-/)
    assert.deepEqual(errors, [])
  })

  test('the login leaves the address, and goes only into the request for a token', async () => {
    const campaign = double.campaign(-1_000)
    await visit(campaign)
    await phase(page, 'open')
    assert.equal(new URL(page.url()).hash, '')
    await action().click()
    await phase(page, 'accepted')
    for (const { path, headers } of campaign.seen) {
      const bearer = headers.authorization !== undefined
      assert.equal(bearer, path.endsWith('/claim-tokens'), path)
      assert.doesNotMatch(path, /login/)
    }
  })

  test('a press answers in the same frame and can’t be doubled', async () => {
    const campaign = double.campaign(-1_000)
    let open = () => {}
    campaign.gate = new Promise((resolve) => {
      open = resolve
    })
    await visit(campaign)
    await phase(page, 'open')
    const shown = await page.evaluate(`(() => {
    const press = () => document.querySelector('#action').click()
    press()
    const shown = document.documentElement.dataset.phase + ' ' + document.querySelector('#action').innerText
    for (let i = 0; i < 5; i++) press()
    return shown
  })()`)
    assert.equal(shown, 'sending Sending…')
    await page.keyboard.press('Enter')
    open()
    await phase(page, 'accepted')
    assert.equal(campaign.asked('POST', '/claims').length, 1)
  })

  test('two tabs of one reader that press at once make one claim', async () => {
    const campaign = double.campaign(-1_000)
    let open = () => {}
    campaign.gate = new Promise((resolve) => {
      open = resolve
    })
    await visit(campaign)
    await phase(page, 'open')
    const second = await page.context().newPage()
    await second.goto(`${double.origin}/c/${campaign.id}#login=${login('ada')}`)
    await phase(second, 'open')
    const press = `document.querySelector('#action').click()`
    await Promise.all([page.evaluate(press), second.evaluate(press)])
    await until(() => campaign.asked('POST', '/claims').length === 2, 'both tabs have sent')
    open()
    await Promise.all([phase(page, 'accepted'), phase(second, 'accepted')])
    campaign.settle({ status: 'DELIVERED' })
    await Promise.all([phase(page, 'delivered'), phase(second, 'delivered')])
    assert.equal(
      new Set(campaign.asked('POST', '/claims').map((each) => each.headers['idempotency-key'])).size,
      1,
    )
  })

  test('busy counts down, and tries again with the same key, not sooner than asked', async () => {
    const campaign = double.campaign(-1_000)
    campaign.claims.push(problem(503, 'BUSY', { retry_after_ms: 5_000 }), problem(503, 'NOT_READY'))
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'busy')
    assert.match(await status(), /^Many people at once\. Trying again for you in [1-8] s\.$/)
    assert.match(String(await action().textContent()), /Again in\s*[1-8] s/)
    await phase(page, 'accepted')
    const claims = campaign.asked('POST', '/claims')
    assert.equal(claims.length, 3)
    assert.ok(claims[1]!.at - claims[0]!.at >= 5_000)
    assert.equal(new Set(claims.map((each) => each.headers['idempotency-key'])).size, 1)
  })

  test('a refused token is replaced once, under the same key', async () => {
    const campaign = double.campaign(-1_000)
    campaign.claims.push(problem(401, 'TOKEN_EXPIRED'))
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'accepted')
    const claims = campaign.asked('POST', '/claims')
    assert.equal(claims.length, 2)
    assert.equal(claims[0]!.headers['idempotency-key'], claims[1]!.headers['idempotency-key'])
    assert.notEqual(claims[0]!.headers['claim-token'], claims[1]!.headers['claim-token'])
  })

  test('every refusal ends in its own state, with one next step', async () => {
    const refusals: [code: string, status: number, phase: string, next: RegExp][] = [
      ['SOLD_OUT', 409, 'sold_out', /See others/],
      ['LIMIT_REACHED', 409, 'limit_reached', /Open my coupon/],
      ['ENDED', 410, 'ended', /See others/],
      ['VOIDED', 410, 'withdrawn', /See others/],
      ['NOT_ELIGIBLE', 403, 'not_eligible', /See others/],
      ['IDEMPOTENCY_MISMATCH', 422, 'failed', /Try again/],
    ]
    for (const [code, httpStatus, expected, next] of refusals) {
      const campaign = double.campaign(-1_000)
      campaign.claims.push(problem(httpStatus, code))
      await visit(campaign)
      await phase(page, 'open')
      await action().click()
      await phase(page, expected)
      assert.match(String(await action().textContent()), next)
      assert.equal(await page.locator('.action').count(), 1)
    }
  })

  test('a login that the service refuses leads to signing in and back', async () => {
    const campaign = double.campaign(-1_000)
    campaign.tokens.push(problem(401, 'UNAUTHENTICATED'), problem(401, 'UNAUTHENTICATED'))
    await visit(campaign)
    await phase(page, 'signed_out')
    const href = String(await action().getAttribute('href'))
    assert.equal(href, `/login?return_to=${encodeURIComponent(`/c/${campaign.id}`)}`)
    campaign.tokens.length = 0
    await action().click()
    await page.locator('#token').fill(login('ada'))
    await page.locator('#go').click()
    await phase(page, 'open')
    await action().click()
    await phase(page, 'accepted')
  })

  test('a claim under way when the login runs out goes on after the sign-in, without another press', async () => {
    const campaign = double.campaign(-1_000)
    campaign.tokens.push(
      problem(503, 'UNAVAILABLE', { retry_after_ms: 60_000 }),
      problem(401, 'UNAUTHENTICATED'),
    )
    const ahead = tokenAnswered(page)
    await visit(campaign)
    await phase(page, 'open')
    await ahead
    await action().click()
    await phase(page, 'signed_out')
    assert.equal(campaign.asked('POST', '/claims').length, 0)
    await action().click()
    await page.locator('#token').fill(login('ada'))
    await page.locator('#go').click()
    await phase(page, 'accepted')
    assert.equal(campaign.asked('POST', '/claims').length, 1)
  })

  test('a campaign in direct mode delivers with the answer itself', async () => {
    const campaign = double.campaign(-1_000)
    const body = {
      request_id: 'r',
      status: 'DELIVERED',
      coupon_id: 'k1',
      valid_until: '2030-01-01T00:00:00Z',
    }
    campaign.claims.push({ status: 201, body })
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'delivered')
    assert.equal(await action().getAttribute('href'), '/wallet#coupon=k1')
  })

  test('who may have several gets the next one under a new key', async () => {
    const campaign = double.campaign(-1_000, { per_user_limit: 2 })
    await visit(campaign)
    await phase(page, 'open')
    assert.equal(await status(), 'Up to 2 per person.')
    for (const round of [1, 2]) {
      await action().click()
      await phase(page, 'accepted')
      campaign.settle({ status: 'DELIVERED' })
      await phase(page, 'delivered')
      assert.equal(await page.locator('#another').isVisible(), round === 1)
      if (round === 1) await page.locator('#another').click()
    }
    assert.equal(
      new Set(campaign.asked('POST', '/claims').map((each) => each.headers['idempotency-key'])).size,
      2,
    )
  })

  test('paused and sold out follow the campaign, an unknown campaign is called that', async () => {
    const campaign = double.campaign(-1_000, { availability: 'paused' })
    await page.clock.install()
    await visit(campaign)
    await phase(page, 'paused')
    campaign.view.availability = 'open'
    await page.clock.fastForward(31_000)
    await phase(page, 'open')
    await page.goto(`${double.origin}/c/${double.campaign(-1_000, { availability: 'sold_out' }).id}`)
    await phase(page, 'sold_out')
    await page.goto(`${double.origin}/c/unknown`)
    await phase(page, 'missing')
  })

  test('a press that was early by the server’s clock is sent at the start without another press', async () => {
    const campaign = double.campaign(-1_000)
    const doubtMs = await timeTrips(page)
    let startsAt = 0
    campaign.claims.push(() => {
      startsAt = Date.now() + 5_000
      return problem(409, 'NOT_STARTED', { starts_at: new Date(startsAt).toISOString() })
    })
    await visit(campaign)
    await phase(page, 'open')
    await action().click()
    await phase(page, 'upcoming')
    assert.match(await status(), /^A moment early\. We'll send it for you at \d\d:\d\d\.$/)
    await phase(page, 'accepted')
    const [, second] = campaign.asked('POST', '/claims')
    assert.ok(second!.at >= startsAt - (await doubtMs()), `${second!.at - startsAt}`)
  })
})
