import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { browserProgram, openPage, skipWithout, startBrowser } from '../../tests/page/browser.ts'
import { renderReport } from './render.ts'
import { emptyRecord, hostileRecord, sampleRecord } from './sample.fixture.ts'

/** The page as it is opened from disk: one scenario of each kind of plot, and a record of nothing. */

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('the report in a browser', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let dir: string
  const address = (name: string) => pathToFileURL(join(dir, name)).href

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'report-page-'))
    const sample = sampleRecord(1, 120)
    const failing = {
      ...sample,
      scenarios: sample.scenarios.slice(4, 6),
      bench: { edge: { ratio_claim: 0.5 } },
    }
    const halved = failing.scenarios.map((one) => ({ ...one, commands: { edge: 1, core: 1 }, passed: false }))
    writeFileSync(join(dir, 'full.html'), renderReport(failing, { ...failing, scenarios: halved }))
    writeFileSync(join(dir, 'empty.html'), renderReport(emptyRecord()))
    writeFileSync(join(dir, 'hostile.html'), renderReport(hostileRecord().record))
    browser = await startBrowser(program!)
  })
  after(async () => {
    await browser.close()
    rmSync(dir, { recursive: true })
  })

  async function opened(name: string, width: number, scheme: 'light' | 'dark'): Promise<Page> {
    const { page, errors } = await openPage(browser, {
      viewport: { width, height: 900 },
      colorScheme: scheme,
    })
    const asked: string[] = []
    page.on('request', (request) => asked.push(request.url()))
    await page.goto(address(name))
    assert.deepEqual(errors, [])
    // Nothing but the file itself, and the icon that is no icon.
    assert.deepEqual(
      asked.filter((url) => url !== 'data:,'),
      [address(name)],
    )
    return page
  }

  async function assertAccessible(page: Page, rules?: string[]): Promise<void> {
    await page.evaluate('document.querySelectorAll("details").forEach((fold) => { fold.open = true })')
    const axe = new AxeBuilder({ page }).setLegacyMode(true)
    const { violations } = await (rules ? axe.withRules(rules) : axe).analyze()
    const told = violations.map(({ id, nodes }) => [id, ...nodes.slice(0, 3).map((node) => node.html)])
    assert.deepEqual(told, [])
  }

  for (const name of ['full.html', 'empty.html']) {
    test(`${name} passes axe, its folds open`, async () => {
      const page = await opened(name, 1280, 'light')
      await assertAccessible(page)
      await page.close()
    })
    test(`${name} has enough contrast in the dark`, async () => {
      const page = await opened(name, 1280, 'dark')
      await assertAccessible(page, ['color-contrast'])
      await page.close()
    })
    test(`${name} fits a phone without scrolling sideways`, async () => {
      const page = await opened(name, 360, 'light')
      assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
      await page.close()
    })
  }

  test('a text without enough contrast would be found', async () => {
    const page = await opened('empty.html', 1280, 'light')
    await page.evaluate('document.documentElement.style.setProperty("--ink-soft", "#ccc")')
    await assert.rejects(assertAccessible(page, ['color-contrast']), /color-contrast/)
    await page.close()
  })

  test('names that try to be markup are only text to a browser', async () => {
    const page = await opened('hostile.html', 1280, 'light')
    assert.equal(await page.evaluate('document.querySelectorAll("script, img, [onerror]").length'), 0)
    assert.match((await page.locator('h2').allTextContents()).join(), /<script>alert\(1\)<\/script>/)
    await page.close()
  })

  test('plots take the colours of light, dark and print from the page', async () => {
    const page = await opened('full.html', 1280, 'light')
    const stroke = () =>
      page.evaluate(`getComputedStyle(document.querySelector('.plot path[stroke="var(--line-1)"]')).stroke`)
    const light = await stroke()
    await page.emulateMedia({ colorScheme: 'dark' })
    assert.notEqual(await stroke(), light)
    await page.emulateMedia({ colorScheme: 'dark', media: 'print' })
    assert.equal(await stroke(), light)
    await page.close()
  })

  test('printed, it has no fold that hides something needed, and no plot is wider than the paper', async () => {
    const page = await opened('full.html', 700, 'light')
    await page.emulateMedia({ media: 'print' })
    assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
    const pdf = await page.pdf({ preferCSSPageSize: true })
    assert.ok(pdf.length > 10_000)
    await page.close()
  })
})
