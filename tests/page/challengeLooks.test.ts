import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser } from 'playwright-core'
import { problem } from './answers.ts'
import { browserProgram, openPage, phase, skipWithout, startBrowser } from './browser.ts'
import { type ChallengePage, startChallengePage } from './challengePage.ts'
import { login, startDouble } from './double.ts'

/** The check with its widget in place: widths, themes, languages; and a page that was built without it. */

const shots = join(import.meta.dirname, 'screenshots')
const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])
const sizes = [
  { width: 1280, height: 800, form: 'flexible' },
  { width: 360, height: 740, form: 'flexible' },
  { width: 320, height: 568, form: 'compact' },
]
const themes = ['light', 'dark'] as const

describe('the check’s looks', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let gate: ChallengePage

  before(async () => {
    await mkdir(shots, { recursive: true })
    ;[browser, gate] = await Promise.all([startBrowser(program!), startChallengePage('challenge-looks')])
  })
  after(async () => {
    await browser?.close()
    await gate?.stop()
  })

  for (const language of ['en', 'zh'] as const)
    test(`it fits every width and passes axe in both themes, in ${language}`, async () => {
      for (const { form, ...viewport } of sizes) {
        const options = {
          viewport,
          locale: language === 'en' ? 'en' : 'zh-CN',
          reducedMotion: 'reduce' as const,
        }
        const { page, errors } = await openPage(browser, options)
        gate.widget.clear()
        await page.goto(await gate.address(await gate.campaign(25_000), `${language}-${viewport.width}`))
        await phase(page, 'challenge')
        await page.frameLocator('#widget iframe').locator('#human').waitFor()
        assert.deepEqual(
          gate.widget.rendered.map(({ size, language: spoken }) => [size, spoken]),
          [[form, language === 'zh' ? 'zh-cn' : 'en']],
        )
        const wide = await page.evaluate('document.documentElement.scrollWidth > innerWidth')
        assert.equal(wide, false, `${viewport.width}: scrolls sideways`)
        const box = await page.locator('#widget iframe').boundingBox()
        assert.ok(box !== null && box.x >= 0 && box.x + box.width <= viewport.width)
        const status = await page.locator('#status').boundingBox()
        assert.ok(
          status !== null && status.y + status.height <= box.y,
          'the sentence stands above the widget',
        )
        assert.ok(box.y + box.height <= viewport.height, `${viewport.width}: the widget is below the fold`)
        for (const colorScheme of themes) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
          await page.screenshot({
            path: join(shots, `challenge_widget-${language}-${colorScheme}-${viewport.width}.png`),
          })
          const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze()
          assert.deepEqual(
            violations.map(({ id }) => id),
            [],
          )
        }
        assert.deepEqual(errors, [])
        await page.context().close()
      }
    })

  test('a page that was built without a site key shows no check, and says what the reader can do', async () => {
    const double = await startDouble()
    try {
      const campaign = double.campaign(-1_000)
      const asks = problem(403, 'CHALLENGE_REQUIRED', { action: 'claim-token', site_key: 'key' })
      campaign.tokens.push(asks)
      const { page, errors } = await openPage(browser)
      await page.goto(`${double.origin}/c/${campaign.id}#login=${login('ada')}`)
      await phase(page, 'challenge_lost')
      assert.equal(await page.locator('script[src], iframe').count(), 0)
      assert.deepEqual(errors, [])
    } finally {
      await double.close()
    }
  })
})
