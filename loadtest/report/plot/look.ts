import { type Html, html } from '../text/html.ts'

/**
 * How one series is told from another: by colour, by dash and by marker, so that it also works in grey print and for
 * eyes that don't see the colours apart. Colours are `--line-1` to `--line-8` of the page.
 */
export interface Look {
  readonly color: string
  readonly dash: readonly number[]
  readonly marker: 'circle' | 'rect' | 'triangle' | 'diamond'
}

const dashes = [[], [7, 3], [2, 2], [8, 3, 2, 3]] as const
const markers = ['circle', 'rect', 'triangle', 'diamond'] as const

export const looksMax = 8

/** The nth look; there are eight. */
export function look(index: number): Look {
  const at = index % looksMax
  return {
    color: `var(--line-${at + 1})`,
    dash: dashes[at % dashes.length]!,
    marker: markers[(at + Math.floor(at / markers.length)) % markers.length]!,
  }
}

/** What was offered is the measure of everything else: the page's own ink, unbroken. */
export const plain: Look = { color: 'var(--ink)', dash: [], marker: 'circle' }

const shapes: Readonly<Record<Look['marker'], string>> = {
  circle: 'M13 6a3 3 0 1 0 6 0a3 3 0 1 0 -6 0',
  rect: 'M13 3h6v6h-6z',
  triangle: 'M16 2.5l3.5 6.5h-7z',
  diamond: 'M16 2l4 4l-4 4l-4 -4z',
}

/** A legend of HTML, which wraps where the page is narrow. */
export function legend(entries: readonly { readonly name: string; readonly look: Look }[]): Html {
  const items = entries.map(
    ({ name, look }) => html`<li><svg viewBox="0 0 32 12" width="32" height="12" aria-hidden="true">
<path d="M0 6h32" stroke="${look.color}" stroke-width="2" stroke-dasharray="${look.dash.join(',') || 'none'}"/>
<path d="${shapes[look.marker]}" fill="${look.color}"/></svg>${name}</li>
`,
  )
  return html`<ul class="legend">${items}</ul>`
}
