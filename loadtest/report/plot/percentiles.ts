import type { LatencyRecord } from '../../record/record.ts'
import { number, short } from '../text/format.ts'
import type { Html } from '../text/html.ts'
import { table } from '../text/table.ts'
import { figure } from './figure.ts'
import { legend, look, looksMax } from './look.ts'
import { axisStyle, drawSvg, grid, nameBelow, plotWidth, textStyle, unitAbove } from './svg.ts'

const points = [
  ['p50', 'p50_ms'],
  ['p90', 'p90_ms'],
  ['p99', 'p99_ms'],
  ['p99.9', 'p999_ms'],
  ['max', 'max_ms'],
] as const

const [left, right, height] = [46, 16, 220]
/** The logarithm's floor: below it nothing of the path is told apart. */
const floorMs = 0.1

/** Percentiles of each kind of answer, most frequent first; the scale is logarithmic, as tails are. */
export function percentilesFigure(
  title: string,
  caption: string,
  latencies: readonly LatencyRecord[],
): Html | undefined {
  const measured = latencies.filter(({ count }) => count > 0).sort((a, b) => b.count - a.count)
  if (measured.length === 0) return undefined
  // What does not fit is still in the words and in the numbers.
  const drawn = measured.slice(0, looksMax)
  const told = measured.map(
    (one) => `${one.name}: ${points.map(([name, field]) => `${name} ${number(one[field])} ms`).join(', ')}.`,
  )
  const plot = drawSvg(
    {
      grid: { left, right, top: 26, height: height - 26 - 40, width: plotWidth - left - right },
      xAxis: {
        type: 'category',
        data: points.map(([name]) => name),
        boundaryGap: false,
        ...axisStyle,
        axisLabel: { ...textStyle, interval: 0 },
        name: 'share of answers that were quicker',
        ...nameBelow,
      },
      yAxis: {
        type: 'log',
        ...unitAbove('ms', left),
        ...axisStyle,
        splitLine: { lineStyle: { color: grid } },
        axisLabel: { ...textStyle, formatter: short },
      },
      series: drawn.map((one, i) => ({
        type: 'line',
        name: one.name,
        clip: false,
        symbol: look(i).marker,
        symbolSize: 7,
        showAllSymbol: true,
        lineStyle: { color: look(i).color, width: 1.5, type: look(i).dash.length ? look(i).dash : 'solid' },
        itemStyle: { color: look(i).color, borderWidth: 0 },
        data: points.map(([, field]) => Math.max(one[field], floorMs)),
      })) as never,
    },
    height,
    `${title}. ${told.join(' ')}`,
  )
  return figure({
    title,
    caption: `${caption} Logarithmic.`,
    plot,
    legend: legend(drawn.map(({ name }, i) => ({ name, look: look(i) }))),
    numbers: table(
      title,
      [
        { head: 'answer', cell: (one) => one.name },
        { head: 'count', right: true, cell: (one) => number(one.count) },
        ...points.map(([name, field]) => ({
          head: `${name}, ms`,
          right: true,
          cell: (one: LatencyRecord) => number(one[field]),
        })),
      ],
      measured,
    ),
  })
}
