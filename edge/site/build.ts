/// <reference types="node" />
import { createHash } from 'node:crypto'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { brand } from './brand.ts'

/**
 * Builds the pages into `public/`. Style and script stand inside their page, so that a phone on a poor network has
 * all of it after one answer; the policy in `_headers` allows exactly these texts, by their hash, and nothing else.
 */

const here = import.meta.dirname
const budgetBytes = 30 * 1024
const target = ['chrome111', 'safari16.4', 'firefox114']

interface PageSource {
  name: string
  styles: string[]
  script: string
}

const pages: PageSource[] = [
  { name: 'index', styles: ['src/base.css', 'src/ticket.css', 'src/page.css'], script: 'src/main.ts' },
  { name: 'wallet', styles: ['src/base.css', 'src/wallet.css'], script: 'src/wallet.ts' },
  { name: 'login', styles: ['src/base.css', 'src/signin.css'], script: 'src/signin.ts' },
]

const icon = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0b5f59"/>' +
    '<path d="M4 19c4-4 8-4 12 0s8 4 12 0v9H4z" fill="#bcdfd8"/></svg>',
)}`

/** Turnstile's script, as Cloudflare serves it: explicit, so that nothing is rendered until the page says so. */
export const turnstileScript = 'https://challenges.cloudflare.com/turnstile/v0/api.js?render=explicit'

/**
 * @param out folder to write, on the file system of this one
 * @param challenge address of Turnstile's script, for a gate that has a site key; without it the policy allows
 *   nothing from anywhere else, and a challenge can't be shown
 * @returns size of the campaign page as it travels: HTML with its style and script
 * @throws when a page is over 30 KB gzip
 */
export async function buildSite(
  out = join(here, 'public'),
  challenge?: string,
): Promise<{ bytes_gzip: number }> {
  const colours = await readFile(join(here, 'brand.css'), 'utf8')
  const hashes = { style: new Set<string>(), script: new Set<string>() }
  const sizes = new Map<string, number>()
  for (const page of pages) {
    const style = (await bundle(page.styles.map((path) => `@import "./${path}";`).join('\n'), colours)).trim()
    const script = (await bundleScript(page.script)).trim()
    hashes.style.add(hashOf(style))
    hashes.script.add(hashOf(script))
    const html = fillIn(squeeze(await readFile(join(here, 'src', `${page.name}.html`), 'utf8')), {
      brand: escapeHtml(brand.name),
      icon,
      challenge: page.name === 'index' ? challengeTag(challenge) : '',
      paper: colourOf(colours, 0),
      'paper-dark': colourOf(colours, 1),
      style: `<style>${style}</style>`,
      script: `<script type="module">${script}</script>`,
    })
    const bytes = gzipSync(html, { level: 9 }).length
    if (bytes > budgetBytes) throw new Error(`${page.name}.html is ${bytes} bytes gzip, over ${budgetBytes}`)
    sizes.set(page.name, bytes)
    await replace(join(out, `${page.name}.html`), html)
  }
  await replace(join(out, 'assets', 'states.js'), await bundleScript('src/states.ts'))
  await replace(join(out, '_headers'), headersFile(hashes, challenge))
  return { bytes_gzip: sizes.get('index')! }
}

async function bundle(css: string, colours: string): Promise<string> {
  const result = await build({
    stdin: { contents: `${colours}\n`, loader: 'css', resolveDir: here },
    write: false,
    minify: true,
    target,
  })
  const rest = await build({
    stdin: { contents: css, loader: 'css', resolveDir: here },
    bundle: true,
    write: false,
    minify: true,
    target,
  })
  return result.outputFiles[0]!.text.trim() + rest.outputFiles[0]!.text
}

async function bundleScript(entry: string): Promise<string> {
  const result = await build({
    entryPoints: [join(here, entry)],
    bundle: true,
    write: false,
    minify: true,
    format: 'esm',
    target,
    charset: 'utf8',
    legalComments: 'none',
  })
  // Inside a page a closing tag or a comment in a string would end the script.
  return result.outputFiles[0]!.text.replaceAll('</', '<\\/').replaceAll('<!--', '<\\!--')
}

function challengeTag(script: string | undefined): string {
  return script === undefined ? '' : `<meta name="challenge" content="${escapeHtml(script)}">`
}

/**
 * With a challenge, its origin may send script and frames, and nothing else does. Two things are then given up, on
 * the campaign page alone: Turnstile says nothing of Trusted Types, so they can't be asked for; and its frame may see
 * the page's origin (never the path), since a site key is good for certain hosts only.
 */
function headersFile(
  hashes: { style: Set<string>; script: Set<string> },
  challenge: string | undefined,
): string {
  const policy = (origin?: string) =>
    [
      "default-src 'none'",
      ['script-src', "'self'", ...hashes.script, ...(origin === undefined ? [] : [origin])].join(' '),
      ...(origin === undefined ? [] : [`frame-src ${origin}`]),
      `style-src ${[...hashes.style].join(' ')}`,
      "connect-src 'self'",
      "img-src 'self' data:",
      "base-uri 'none'",
      "form-action 'self'",
      "frame-ancestors 'self'",
      ...(origin === undefined ? ["require-trusted-types-for 'script'"] : []),
    ].join('; ')
  // A line with `!` takes away what an earlier rule has set; without it both policies would hold.
  const campaignPage =
    challenge === undefined
      ? []
      : [
          '/c/*',
          '  ! Content-Security-Policy',
          `  Content-Security-Policy: ${policy(new URL(challenge).origin)}`,
          '  ! Referrer-Policy',
          '  Referrer-Policy: strict-origin',
        ]
  return [
    '/*',
    `  Content-Security-Policy: ${policy()}`,
    '  X-Content-Type-Options: nosniff',
    '  Referrer-Policy: no-referrer',
    '  Permissions-Policy: camera=(), geolocation=(), microphone=(), payment=()',
    '  Cross-Origin-Opener-Policy: same-origin',
    ...campaignPage,
    '',
  ].join('\n')
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`
}

/** The ground's colour in the light (0) or dark (1) theme, for the browser's own bars. */
function colourOf(css: string, theme: number): string {
  const found = [...css.matchAll(/--paper:\s*([^;]+);/g)][theme]
  if (!found) throw new Error('brand.css must give --paper for the light and for the dark theme')
  return found[1]!
}

function squeeze(html: string): string {
  return html.replace(/\n\s*/g, '\n').replace(/>\n</g, '><')
}

function fillIn(html: string, values: Record<string, string>): string {
  return html.replace(/\{\{([\w-]+)\}\}/g, (_, name: string) => values[name] ?? '')
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`)
}

/**
 * Writes a file in one step, and only when it differs: a server or a bundler may be walking the folder just now.
 * What is half written stays beside the folder, never in it.
 */
async function replace(path: string, content: string): Promise<void> {
  const present = await readFile(path, 'utf8').catch(() => undefined)
  if (present === content) return
  await mkdir(dirname(path), { recursive: true })
  const partial = join(
    here,
    `.partial-${process.pid}-${createHash('sha256').update(path).digest('hex').slice(0, 8)}`,
  )
  await writeFile(partial, content)
  await rename(partial, path)
}

/** Which script the settings ask for; none unless the gate has a site key. */
function challengeOf({ TURNSTILE_SITE_KEY: siteKey, TURNSTILE_SCRIPT_URL: script }: NodeJS.ProcessEnv) {
  if (!siteKey) return undefined
  const address = script || turnstileScript
  if (!/^https?:\/\//.test(address) || !URL.canParse(address))
    throw new Error('TURNSTILE_SCRIPT_URL is not an http or https address')
  return address
}

if (import.meta.main) {
  const challenge = challengeOf(process.env)
  const { bytes_gzip } = await buildSite(undefined, challenge)
  const allowed = challenge === undefined ? '' : `; challenges from ${new URL(challenge).origin}`
  console.log(`campaign page: ${bytes_gzip} bytes gzip of ${budgetBytes}${allowed}`)
}
