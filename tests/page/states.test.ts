import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { isPhase, stateNames } from '../../edge/site/src/states.ts'
import { browserProgram, openPage, skipWithout, startBrowser } from './browser.ts'
import { type Double, startDouble } from './double.ts'

/** Every state of the page, looked at in both languages, both themes and three widths. */

const shots = join(import.meta.dirname, 'screenshots')
const sizes = [
  { width: 1280, height: 800 },
  { width: 768, height: 1024 },
  { width: 360, height: 740 },
]
const themes = ['light', 'dark'] as const
const zones = { en: 'Europe/Berlin', zh: 'Asia/Shanghai' }

const program = browserProgram(process.env['TEST_CHROMIUM_BIN'])

describe('every state of the page', { skip: skipWithout(program) }, () => {
  let browser: Browser
  let double: Double

  before(async () => {
    await mkdir(shots, { recursive: true })
    ;[browser, double] = await Promise.all([startBrowser(program!), startDouble()])
  })
  after(() => Promise.all([browser.close(), double.close()]))

  interface Box {
    name: string
    width: number
    height: number
  }

  const measure = `[...document.querySelectorAll('button, a, summary')].filter((e) => e.checkVisibility()).map((e) => {
  const { width, height } = e.getBoundingClientRect()
  return { name: e.id || e.textContent, width, height }
})`

  async function assertFits(page: Page, where: string): Promise<void> {
    const wide = await page.evaluate('document.documentElement.scrollWidth > innerWidth')
    assert.equal(wide, false, `${where}: scrolls sideways`)
    for (const box of (await page.evaluate(measure)) as Box[]) {
      assert.ok(box.width >= 44 && box.height >= 44, `${where}: ${box.name} is ${box.width} × ${box.height}`)
    }
  }

  interface Violation {
    id: string
    nodes: { html: string }[]
  }

  /** The first time in a page axe is brought in by its builder, which takes long; after that it is there. */
  async function assertAccessible(page: Page, where: string): Promise<void> {
    const violations = (await page.evaluate('"axe" in window'))
      ? await page.evaluate<Violation[]>('axe.run(document).then((result) => result.violations)')
      : (await new AxeBuilder({ page }).setLegacyMode(true).analyze()).violations
    const told = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)
    assert.deepEqual(told, [], where)
  }

  async function lookAt(page: Page, name: string, language: 'en' | 'zh'): Promise<void> {
    await page.goto(`${double.origin}/c/example?state=${name}&lang=${language}`)
    await page.locator('[data-shape]').waitFor({ state: 'attached' })
    for (const size of isPhase(name) ? sizes : sizes.slice(-1)) {
      await page.setViewportSize(size)
      await assertFits(page, `${name} ${language} ${size.width}`)
      for (const theme of themes) {
        await page.emulateMedia({ colorScheme: theme, reducedMotion: 'reduce' })
        const file = join(shots, `${name}-${language}-${theme}-${size.width}.png`)
        await page.screenshot({ path: file })
        if (size.width === 360) await assertAccessible(page, `${name} ${language} ${theme}`)
      }
    }
  }

  // A test a state: on a busy machine all of them together would outlast the time that one test has.
  describe('every state passes axe, fits, and has targets of 44 px, in both themes', {
    concurrency: true,
  }, () => {
    for (const language of ['en', 'zh'] as const)
      describe(`in ${language}`, { concurrency: false }, () => {
        let page: Page
        let errors: string[]
        before(async () => {
          const options = { timezoneId: zones[language], reducedMotion: 'reduce' as const }
          ;({ page, errors } = await openPage(browser, options))
        })
        for (const name of stateNames)
          test(name, async () => {
            await lookAt(page, name, language)
            assert.deepEqual(errors, [])
          })
      })
  })

  test('every kind of benefit fits its ticket', async () => {
    const { page } = await openPage(browser, { reducedMotion: 'reduce' })
    for (const benefit of ['percent', 'price', 'shipping', 'large']) {
      for (const language of ['en', 'zh']) {
        await page.goto(`${double.origin}/c/example?state=open&benefit=${benefit}&lang=${language}`)
        await page.locator('html[data-phase="open"]').waitFor({ state: 'attached' })
        await assertFits(page, benefit)
        const face = await page.evaluate(`(() => {
        const face = document.querySelector('.face')
        return face.scrollWidth <= face.clientWidth && face.scrollHeight <= face.clientHeight
      })()`)
        assert.equal(face, true, benefit)
        await page.screenshot({ path: join(shots, `benefit-${benefit}-${language}-360.png`) })
      }
    }
  })
})
