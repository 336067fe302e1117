import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'

const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export function startBrowser(): Promise<Browser> {
  const executablePath = process.env['TEST_CHROMIUM_BIN'] ?? '/usr/bin/chromium'
  return chromium.launch({ executablePath, args: flags })
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
export function phase(page: Page, name: string, timeout = 8_000): Promise<void> {
  return page.locator(`html[data-phase="${name}"]`).waitFor({ state: 'attached', timeout })
}
