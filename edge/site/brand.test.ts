/// <reference types="node" />
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'

/** WCAG 2.2 contrast of two `#rrggbb` colours. */
function contrast(a: string, b: string): number {
  const luminance = (hex: string) => {
    const [r, g, blue] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r! + 0.7152 * g! + 0.0722 * blue!
  }
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x)
  return (light! + 0.05) / (dark! + 0.05)
}

const css = readFileSync(new URL('brand.css', import.meta.url), 'utf8')
const split = css.indexOf('@media (prefers-color-scheme: dark)')
const themes = [css.slice(0, split), css.slice(split)].map(
  (text) =>
    new Map([...text.matchAll(/--([\w-]+):\s*(#[0-9a-f]{6});/gi)].map((found) => [found[1]!, found[2]!])),
)

test('every text of the brand’s colours has a contrast of 4.5 on each of its grounds, light and dark', () => {
  const pairs: [text: string, grounds: string[]][] = [
    ['ink', ['paper', 'card', 'water', 'water-deep']],
    ['ink-soft', ['paper', 'card', 'water', 'water-deep']],
    ['on-tide', ['tide']],
    ['on-won', ['won']],
    ['on-won-soft', ['won']],
  ]
  for (const [index, theme] of themes.entries()) {
    for (const [text, grounds] of pairs) {
      for (const ground of grounds) {
        const ratio = contrast(theme.get(text)!, theme.get(ground)!)
        assert.ok(ratio >= 4.5, `${['light', 'dark'][index]}: ${text} on ${ground} is ${ratio.toFixed(2)}`)
      }
    }
  }
})

test('the marks and the ring of focus stand out from their ground by 3', () => {
  for (const theme of themes) {
    for (const mark of ['tide', 'mark-wait', 'mark-over', 'ring']) {
      assert.ok(contrast(theme.get(mark)!, theme.get('paper')!) >= 3, mark)
    }
  }
})
