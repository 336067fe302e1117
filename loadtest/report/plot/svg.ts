import { BarChart, LineChart } from 'echarts/charts'
import { GridComponent, MarkLineComponent } from 'echarts/components'
import { type ECharts, init, use } from 'echarts/core'
import { SVGRenderer } from 'echarts/renderers'
import { escapeText, Html } from '../text/html.ts'
import { shortenPath } from './path.ts'

use([LineChart, BarChart, GridComponent, MarkLineComponent, SVGRenderer])

export type Option = Parameters<ECharts['setOption']>[0]

/** Width of every plot in its own units, about CSS pixels: a phone's, and a third of a desktop's. */
export const plotWidth = 420
export const fontSize = 12

/** Colours are the page's variables, so that a plot follows light, dark and print without being drawn again. */
export const ink = 'var(--ink-soft)'
export const grid = 'var(--line)'
export const textStyle = { fontFamily: 'inherit', fontSize, color: ink, textBorderWidth: 0 }

/**
 * Draws without a browser. What ECharts adds for a mouse goes, and so does every inline style and id: the page allows
 * none (its content security policy), and the same record has to become the same bytes.
 * @param says the text alternative, whole sentences
 */
export function drawSvg(option: Option, height: number, says: string): Html {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: plotWidth, height })
  try {
    chart.setOption({ animation: false, backgroundColor: 'transparent', textStyle, ...option })
    return new Html(clean(chart.renderToSVGString(), says))
  } finally {
    chart.dispose()
  }
}

const dropped =
  / (?:class|style|pointer-events|xml:space|xmlns|xmlns:xlink|version|baseProfile|ecmeta_[a-z_]+|stroke-miterlimit|paint-order)="[^"]*"/g

function clean(svg: string, says: string): string {
  return svg
    .replace(/<style[^>]*>[\s\S]*?<\/style>/g, '')
    .replace(/<rect [^>]*fill="none"[^>]*><\/rect>\n?/g, '')
    .replace(/<[^>]+>/g, (tag) => tag.replace(dropped, '').replace(/-?\d+\.\d{2,}/g, shorten))
    .replace(/ {2,}|\n+/g, ' ')
    .replace(/><\/path>/g, '/>')
    .replace(/ d="([^"]+)"/g, (_, path: string) => ` d="${shortenPath(path)}"`)
    .replace(/^<svg [^>]*viewBox="([^"]+)"[^>]*>/, (_, box: string) => {
      return `<svg class="plot" viewBox="${box}" role="img" aria-label="${escapeText(says)}">`
    })
}

const shorten = (number: string) => String(Math.round(Number(number) * 10) / 10)
