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
import { emptyRecord, sampleRecord } from './sample.fixture.ts'

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

  for (const name of ['full.html', 'empty.html']) {
    for (const scheme of ['light', 'dark'] as const) {
      test(`${name} passes axe in ${scheme}, folds open`, async () => {
        const page = await opened(name, 1280, scheme)
        await page.evaluate('document.querySelectorAll("details").forEach((fold) => { fold.open = true })')
        const { violations } = await new AxeBuilder({ page }).setLegacyMode(true).analyze()
        const told = violations.map(
          ({ id, nodes }) =>
            `${id}: ${nodes
              .slice(0, 3)
              .map((node) => node.html)
              .join(' ')}`,
        )
        assert.deepEqual(told, [])
        await page.close()
      })
    }
    test(`${name} fits a phone without scrolling sideways`, async () => {
      const page = await opened(name, 360, 'light')
      assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true)
      await page.close()
    })
  }

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
