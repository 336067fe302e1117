import type { Timeline } from '../../record/record.ts'
import { number, short } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { table } from '../text/table.ts'
import { figure } from './figure.ts'
import { type Look, legend, look } from './look.ts'
import { axisStyle, drawSvg, grid, nameBelow, type Option, plotWidth, textStyle, unitAbove } from './svg.ts'

export interface Line {
  readonly name: string
  /** One at each distance of `every_ms`; `null` is a gap. */
  readonly samples: readonly (number | null)[]
  readonly look?: Look
}

/** Lines of one unit over a common axis of time. */
export interface Panel {
  readonly unit: string
  readonly lines: readonly Line[]
  /** Tall panels are for several lines; 130 unless given. */
  readonly height?: number
}

export interface LinesFigure {
  readonly title: string
  readonly caption?: string
  readonly panels: readonly Panel[]
  readonly every_ms: number
  readonly events: Timeline['events']
}

interface Drawn extends Line {
  /** Among all lines of the figure. */
  readonly index: number
  readonly panel: number
  readonly unit: string
  readonly look: Look
}

const panelHeight = 130
const [top, between, bottom, left, right] = [26, 34, 40, 46, 12]
/** A table behind a fold is for looking a value up; the JSON has them all. */
const rowsMax = 25
const markersPerLine = 6

/** What a line does, for those who can't see it: first, peak with its time, last. */
export function tell({ name, samples }: Line, everyMs: number): string {
  const known = samples.flatMap((value, at) => (value === null ? [] : [{ value, at }]))
  if (known.length === 0) return `${name}: nothing could be read.`
  const peak = known.reduce((best, one) => (one.value > best.value ? one : best))
  const at = number((peak.at * everyMs) / 1000)
  return `${name}: first ${number(known[0]!.value)}, peak ${number(peak.value)} at ${at} s, last ${number(known.at(-1)!.value)}.`
}

function series(line: Drawn, count: number, everyMs: number): object {
  // Markers sit at other places on each line, or lines that run together would hide each other's.
  const step = Math.max(1, Math.floor(count / markersPerLine))
  const offset = Math.floor(((line.index % markersPerLine) * step) / markersPerLine)
  return {
    type: 'line',
    name: line.name,
    xAxisIndex: line.panel,
    yAxisIndex: line.panel,
    clip: false,
    showAllSymbol: true,
    symbol: (_: unknown, { dataIndex }: { dataIndex: number }) =>
      count > 1 && dataIndex % step !== offset ? 'none' : line.look.marker,
    symbolSize: 6,
    lineStyle: { color: line.look.color, width: 1.5, type: line.look.dash.length ? line.look.dash : 'solid' },
    itemStyle: { color: line.look.color, borderWidth: 0 },
    data: line.samples.map((value, at) => [(at * everyMs) / 1000, value]),
  }
}

/** Vertical lines with the numbers of the events, which the caption explains: words would run into each other. */
function marks(events: Timeline['events'], panel: number): object {
  return {
    symbol: 'none',
    silent: true,
    lineStyle: { color: 'var(--mark)', width: 1, type: [3, 3] },
    label: { show: panel === 0, position: 'end', distance: 2, ...textStyle, color: 'var(--mark)' },
    data: events.map(({ at_ms }, i) => ({ xAxis: at_ms / 1000, label: { formatter: String(i + 1) } })),
  }
}

function optionOf(one: LinesFigure, lines: readonly Drawn[], count: number): Option {
  const heights = one.panels.map((panel) => panel.height ?? panelHeight)
  const tops = heights.map((_, i) => top + heights.slice(0, i).reduce((sum, h) => sum + h + between, 0))
  const end = Math.max(
    ((count - 1) * one.every_ms) / 1000,
    ...one.events.map((event) => event.at_ms / 1000),
    0.001,
  )
  const last = one.panels.length - 1
  const drawn = lines.map((line) => series(line, count, one.every_ms))
  // An event shows in a panel also where no line could be read: the marks hang on a line of their own.
  const events = one.panels.map((_, panel) => ({
    type: 'line',
    xAxisIndex: panel,
    yAxisIndex: panel,
    symbol: 'none',
    data: [],
    markLine: marks(one.events, panel),
  }))
  return {
    grid: heights.map((height, i) => ({
      left,
      right,
      top: tops[i],
      height,
      width: plotWidth - left - right,
    })),
    xAxis: heights.map((_, i) => ({
      type: 'value',
      gridIndex: i,
      min: 0,
      max: end,
      splitLine: { show: false },
      ...axisStyle,
      axisLabel: { show: i === last, hideOverlap: true, showMaxLabel: false, ...textStyle, formatter: short },
      ...(i === last && { name: 'seconds', ...nameBelow }),
    })),
    yAxis: one.panels.map(({ unit }, i) => ({
      type: 'value',
      gridIndex: i,
      min: 0,
      splitNumber: heights[i]! > 100 ? 4 : 2,
      ...unitAbove(unit, left),
      ...axisStyle,
      splitLine: { lineStyle: { color: grid } },
      axisLabel: { ...textStyle, hideOverlap: true, formatter: short },
    })),
    series: [...drawn, ...events] as never,
  }
}

function numbersOf(one: LinesFigure, lines: readonly Drawn[], count: number): Html {
  const by = Math.max(1, Math.ceil(count / rowsMax))
  const rows = Array.from({ length: Math.ceil(count / by) }, (_, i) => i * by)
  const said = by === 1 ? one.title : `${one.title}: every ${by}th sample, the JSON has all`
  return table(
    said,
    [
      { head: 'second', right: true, cell: (at) => number((at * one.every_ms) / 1000) },
      ...lines.map((line) => ({
        head: line.unit ? `${line.name}, ${line.unit}` : line.name,
        right: true,
        cell: (at: number) => number(line.samples[at]),
      })),
    ],
    rows,
  )
}

/** A figure of panels under each other, with the events as vertical lines through all of them. */
export function linesFigure(one: LinesFigure): Html | undefined {
  const panels = one.panels.filter(({ lines }) => lines.length > 0)
  if (panels.length === 0) return undefined
  const shown = { ...one, panels }
  const lines = panels
    .flatMap(({ lines, unit }, panel) => lines.map((line) => ({ ...line, panel, unit })))
    .map((line, i): Drawn => ({ ...line, index: i, look: line.look ?? look(i) }))
  const count = Math.max(...lines.map(({ samples }) => samples.length))
  const height =
    top +
    bottom +
    panels.reduce((sum, panel) => sum + (panel.height ?? panelHeight), 0) +
    between * (panels.length - 1)
  const told = lines.map((line) => tell(line, one.every_ms))
  const happened = one.events.map(({ at_ms, label }, i) => `${i + 1} at ${number(at_ms / 1000)} s: ${label}`)
  const says = [
    `${one.title}.`,
    ...told,
    ...(happened.length ? [`Events: ${happened.join('; ')}.`] : []),
  ].join(' ')
  const caption = html`${one.caption}${happened.length > 0 && html` Marked: ${happened.join('; ')}.`}`
  return figure({
    title: one.title,
    caption,
    plot: drawSvg(optionOf(shown, lines, count), height, says),
    legend: legend(lines.map(({ name, look }) => ({ name, look }))),
    numbers: numbersOf(shown, lines, count),
  })
}
