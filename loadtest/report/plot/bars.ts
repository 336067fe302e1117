import { number, short } from '../text/format.ts'
import type { Html } from '../text/html.ts'
import { table } from '../text/table.ts'
import { figure } from './figure.ts'
import { type Look, look } from './look.ts'
import { drawSvg, grid, ink, nameBelow, type Option, plotWidth, textStyle } from './svg.ts'

export interface Bars {
  readonly title: string
  readonly caption?: string
  readonly unit: string
  readonly names: readonly string[]
  /** One or more values for each name. */
  readonly series: readonly { readonly name: string; readonly values: readonly number[] }[]
  /** What is written at a bar's end; the value unless given. */
  label?(value: number): string
}

const [top, bottom, right, left] = [4, 40, 12, 8]
const barHeight = 12
const nameHeight = 20
/** A value's label stands beside its bar, and needs room there. */
const labelRoom = 108

/** With the series' name where there are several: colours don't tell them apart in grey print. */
function labelOf(bars: Bars, name: string, value: number): string {
  const label = bars.label?.(value) ?? number(value)
  return bars.series.length > 1 ? `${label} ${name}` : label
}

function optionOf(bars: Bars, looks: readonly Look[], rowHeight: number): Option {
  const most = Math.max(...bars.series.flatMap(({ values }) => values), 0)
  return {
    grid: { left, right: right + labelRoom, top, bottom, width: plotWidth - left - right - labelRoom },
    xAxis: {
      type: 'value',
      min: 0,
      max: most || 1,
      name: bars.unit,
      ...nameBelow,
      splitNumber: 4,
      splitLine: { lineStyle: { color: grid } },
      axisLabel: { ...textStyle, formatter: short, hideOverlap: true, showMaxLabel: false },
    },
    yAxis: {
      type: 'category',
      inverse: true,
      data: [...bars.names],
      axisTick: { show: false },
      axisLine: { lineStyle: { color: ink } },
      // Names stand above their bars: beside them, long ones would take the plot's width on a phone.
      axisLabel: {
        ...textStyle,
        color: 'var(--ink)',
        inside: true,
        margin: 2,
        interval: 0,
        verticalAlign: 'bottom',
        padding: [0, 0, rowHeight / 2 - nameHeight + 6, 0],
      },
      z: 10,
    },
    series: bars.series.map(({ name, values }, i) => ({
      type: 'bar',
      name,
      barWidth: barHeight,
      barGap: '20%',
      itemStyle: { color: looks[i]!.color },
      label: {
        show: true,
        position: 'right',
        ...textStyle,
        color: 'var(--ink)',
        formatter: ({ dataIndex }: { dataIndex: number }) => labelOf(bars, name, values[dataIndex]!),
      },
      data: [...values],
    })) as never,
  }
}

/** Lying bars, the values written at their ends. */
export function barsFigure(bars: Bars): Html | undefined {
  if (bars.names.length === 0) return undefined
  const looks = bars.series.map((_, i) => look(i))
  const rowHeight = nameHeight * 2 + (barHeight + 3) * bars.series.length - 5
  const told = bars.names.map((name, at) => {
    const values = bars.series.map((one) => {
      const value = number(one.values[at])
      return bars.series.length > 1 ? `${one.name} ${value}` : value
    })
    return `${name}: ${values.join(', ')}.`
  })
  return figure({
    title: bars.title,
    caption: bars.caption,
    plot: drawSvg(
      optionOf(bars, looks, rowHeight),
      top + bottom + rowHeight * bars.names.length,
      `${bars.title}, ${bars.unit}. ${told.join(' ')}`,
    ),
    numbers: table(
      bars.title,
      [
        { head: 'name', cell: (at) => bars.names[at] },
        ...bars.series.map(({ name, values }) => ({
          head: `${name}, ${bars.unit}`,
          right: true,
          cell: (at: number) => number(values[at]),
        })),
      ],
      bars.names.map((_, at) => at),
    ),
  })
}
