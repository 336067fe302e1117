import { existsSync } from 'node:fs'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { CHROMIUM_FLAGS } from '../../stack/chromium.ts'

/** The browser that a test file names in TEST_CHROMIUM_BIN, or Debian's; undefined where there is none. */
export function browserProgram(named: string | undefined): string | undefined {
  const program = named ?? '/usr/bin/chromium'
  return existsSync(program) ? program : undefined
}

/** What a suite that needs a browser is skipped for, as node:test's `skip`. */
export function skipWithout(program: string | undefined): string | false {
  return program === undefined ? 'there is no Chromium here' : false
}

export function startBrowser(program: string): Promise<Browser> {
  return chromium.launch({ executablePath: program, args: CHROMIUM_FLAGS })
}

export const phone = { width: 360, height: 740 }

/** A fresh browser profile with one page, as a phone; console errors and page errors are collected. */
export async function openPage(
  browser: Browser,
  options: BrowserContextOptions = {},
): Promise<{ page: Page; errors: string[] }> {
  const context = await browser.newContext({
    viewport: phone,
    locale: 'en',
    timezoneId: 'Asia/Shanghai',
    ...options,
  })
  const page = await context.newPage()
  const errors: string[] = []
  page.on('pageerror', (error) => errors.push(String(error)))
  page.on('console', (message) => {
    const network = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !network) errors.push(message.text())
  })
  return { page, errors }
}

/** Waits until the page shows this phase. */
export function phase(page: Page, name: string, timeout = 30_000): Promise<void> {
  return page.locator(`html[data-phase="${name}"]`).waitFor({ state: 'attached', timeout })
}

/**
 * Times the page's requests; to be called before the page is opened.
 * @returns how far its idea of the server's clock may be off, ms: half of the trip of the view, which told it
 */
export async function timeTrips(page: Page): Promise<() => Promise<number>> {
  await page.addInitScript(`{
    const { fetch } = window
    window.trips = []
    window.fetch = async (...args) => {
      const sentAt = performance.now()
      try { return await fetch(...args) } finally { trips.push(performance.now() - sentAt) }
    }
  }`)
  return async () => (await page.evaluate<number>('trips[0]')) / 2 + 50
}

/** The answer to the page's next request for a claim token; to be asked for before that, and awaited after it. */
export async function tokenAnswered(page: Page): Promise<void> {
  const response = await page.waitForResponse('**/claim-tokens')
  await response.finished()
}

/** Polls a condition until it holds. @throws after 30 s, naming it. */
export async function until(holds: () => boolean, what: string): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
