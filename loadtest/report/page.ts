import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Fragment, Html, html } from './text/html.ts'

const style = `\n${readFileSync(join(import.meta.dirname, 'page.css'), 'utf8')}`

/**
 * The whole file: no script, nothing fetched, and a policy that says so to the browser. Its one style sheet is allowed
 * by its hash, so that nothing in the record could bring another.
 */
export function page(title: string, content: Fragment): string {
  const hash = createHash('sha256').update(style).digest('base64')
  const policy = `default-src 'none'; img-src data:; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'`
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<link rel="icon" href="data:,">
<style>${new Html(style)}</style>
</head>
<body>
${content}</body>
</html>
`.text
}
