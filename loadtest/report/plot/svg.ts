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
export const axisStyle = { axisLine: { lineStyle: { color: ink } }, axisTick: { lineStyle: { color: ink } } }
/** A name in the middle under an axis. */
export const nameBelow = { nameLocation: 'middle', nameGap: 24, nameTextStyle: textStyle } as const
/** A unit above an axis of values, from the plot's left edge on. */
export const unitAbove = (name: string, left: number) => ({
  name,
  nameGap: 10,
  nameTextStyle: { ...textStyle, align: 'left' as const, padding: [0, 0, 0, 4 - left] },
})

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

/** Of a tag, what a mouse, an older browser or a style sheet of the plot's own would need; the page has the rest. */
const dropped =
  / (?:class|style|pointer-events|xml:space|xmlns|xmlns:xlink|version|baseProfile|ecmeta_[a-z_]+|stroke-miterlimit|paint-order|clip-path)="[^"]*"/g
/** What `.plot` sets for every path and text that says nothing else. */
const usual: Readonly<Record<string, RegExp>> = {
  path: / fill="none"/,
  text: / (?:dominant-baseline="central"|fill="var\(--ink-soft\)")/g,
}

function clean(svg: string, says: string): string {
  return svg
    .replace(/<(style|defs)[^>]*>[\s\S]*?<\/\1>/g, '')
    .replace(/<rect [^>]*fill="none"[^>]*><\/rect>/g, '')
    .replace(/<(\w+)[^>]*>/g, cleanTag)
    .replace(/<\/?g>/g, '')
    .replace(/><\/path>/g, '/>')
    .replace(/>\s+</g, '><')
    .replace(/^<svg [^>]*viewBox="([^"]+)"[^>]*>/, (_, box: string) => {
      return `<svg class="plot" viewBox="${box}" role="img" aria-label="${escapeText(says)}">`
    })
}

function cleanTag(tag: string, name: string): string {
  const kept = tag.replace(dropped, '').replace(usual[name] ?? /$^/, '')
  if (name === 'text') return placed(kept)
  return kept
    .replace(/ d="([^"]+)"/g, (_, path: string) => ` d="${shortenPath(path)}"`)
    .replace(/-?\d+\.\d{2,}/g, (number) => tenths(Number(number)))
}

const tenths = (value: number) => String(Math.round(value * 10) / 10)

/** A text's own place and its shift as one place. */
function placed(tag: string): string {
  const shift = / transform="translate\((-?[\d.]+) (-?[\d.]+)\)"/.exec(tag)
  if (!shift) return tag
  const at = (axis: string) => Number(new RegExp(` ${axis}="(-?[\\d.]+)"`).exec(tag)?.[1] ?? 0)
  const place = ` x="${tenths(at('x') + Number(shift[1]))}" y="${tenths(at('y') + Number(shift[2]))}"`
  return tag.replace(/ (?:x|y)="[^"]*"/g, '').replace(shift[0], place)
}
