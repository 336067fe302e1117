import type { LatencyRecord, ScenarioRecord, Timeline } from '../../record/record.ts'
import { thinTimeline } from '../data/thin.ts'
import { barsFigure } from '../plot/bars.ts'
import { type Line, linesFigure } from '../plot/lines.ts'
import { look, looksMax, plain } from '../plot/look.ts'
import { percentilesFigure } from '../plot/percentiles.ts'
import { number, percent } from '../text/format.ts'
import type { Html } from '../text/html.ts'

type Samples = readonly (number | null)[]

const line = (timeline: Timeline, name: string, shown = name): Line[] => {
  const samples = timeline.series[name]
  return samples?.some((sample) => sample !== null) ? [{ name: shown, samples }] : []
}

const total = (samples: Samples) => samples.reduce<number>((sum, sample) => sum + (sample ?? 0), 0)

/** Sums sample by sample; `null` where none of them has one. */
function sumOf(all: readonly Samples[]): (number | null)[] {
  const length = Math.max(0, ...all.map((samples) => samples.length))
  return Array.from({ length }, (_, at) => {
    const known = all.flatMap((samples) => samples[at] ?? [])
    return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0)
  })
}

/** Refusals by code, those that never came left out, the smallest in one line where there are too many. */
export function refusals(timeline: Timeline, max: number): Line[] {
  const refused = Object.entries(timeline.series)
    .filter(([name, samples]) => name.startsWith('refused.') && total(samples) > 0)
    .sort(([, a], [, b]) => total(b) - total(a))
  const own = refused.length > max ? refused.slice(0, max - 1) : refused
  const others = refused.slice(own.length)
  return [
    ...own.map(([name, samples]): Line => ({ name: name.slice('refused.'.length), samples })),
    ...(others.length > 0
      ? [{ name: `${others.length} other codes`, samples: sumOf(others.map(([, samples]) => samples)) }]
      : []),
  ]
}

/** Of the lines that most scenarios have: whoever reads one after the other finds the same look again. */
const usualLooks = [
  'accepted',
  'BUSY',
  'delivered',
  'SOLD_OUT',
  'LIMIT_REACHED',
  'replayed',
  'RATE_LIMITED',
  'OUTCOME_UNKNOWN',
]

/** Other lines get the looks that are left over. */
function withLooks(lines: readonly Line[]): Line[] {
  const free = usualLooks.flatMap((name, i) => (lines.some((line) => line.name === name) ? [] : [i]))
  return lines.map((line) => {
    const usual = usualLooks.indexOf(line.name)
    return { ...line, look: look(usual >= 0 ? usual : (free.shift() ?? 0)) }
  })
}

function answers(timeline: Timeline): Html | undefined {
  const offered = line(timeline, 'offered').map((one) => ({ ...one, look: plain }))
  const told = ['accepted', 'delivered', 'replayed'].flatMap((name) => line(timeline, name))
  const refused = refusals(timeline, looksMax - told.length)
  const lines = withLooks([...told, ...refused])
  return linesFigure({
    title: 'Offered, accepted, refused',
    caption: 'Requests and answers a second; below, what was refused, by code.',
    panels: [
      { unit: 'a second', lines: [...offered, ...lines.slice(0, told.length)], height: 150 },
      { unit: 'refused a second', lines: lines.slice(told.length), height: 100 },
    ],
    every_ms: timeline.every_ms,
    events: timeline.events,
  })
}

const seriesBy = (timeline: Timeline, first: string): Line[] =>
  Object.keys(timeline.series)
    .filter((name) => name === first || name.startsWith(`${first}.`))
    .flatMap((name) => line(timeline, name))
    .slice(0, looksMax)

function stock(timeline: Timeline): Html | undefined {
  return linesFigure({
    title: 'Stock, backlog, lease',
    caption:
      'Stock left in the gates, log entries not drained yet, and how long the bucket with the least lease may go on.',
    panels: [
      { unit: 'coupons', lines: seriesBy(timeline, 'remaining'), height: 80 },
      { unit: 'log entries', lines: seriesBy(timeline, 'backlog'), height: 80 },
      { unit: 'ms of lease', lines: line(timeline, 'lease_ms', 'lease'), height: 80 },
    ],
    every_ms: timeline.every_ms,
    events: timeline.events,
  })
}

const isLatency = (name: string) => /_p\d+_ms$/.test(name)

function latency(timeline: Timeline): Html | undefined {
  const kinds = Object.keys(timeline.series).filter(isLatency)
  const shown = (name: string) => name.replace(/_ms$/, '').replaceAll('_', ' ')
  const panel = (names: readonly string[]) => ({
    unit: 'ms',
    lines: names.flatMap((name) => line(timeline, name, shown(name))).slice(0, looksMax / 2),
    height: 100,
  })
  // Being told takes ten times as long as being accepted: on one scale, the latter would be a flat line.
  const isOfDelivery = (name: string) => name.startsWith('deliver')
  return linesFigure({
    title: 'Latency over time',
    caption: 'Percentiles of each sample’s answers.',
    panels: [panel(kinds.filter((name) => !isOfDelivery(name))), panel(kinds.filter(isOfDelivery))],
    every_ms: timeline.every_ms,
    events: timeline.events,
  })
}

/** Whatever else was sampled: series that no figure above shows are not lost. */
function others(timeline: Timeline): Html | undefined {
  const known = /^(offered|accepted|delivered|replayed|lease_ms|refused\..*|(remaining|backlog)(\..*)?)$/
  const names = Object.keys(timeline.series).filter((name) => !known.test(name) && !isLatency(name))
  return linesFigure({
    title: 'Also sampled',
    panels: names.slice(0, 4).map((name) => ({
      unit: name.replaceAll('_', ' '),
      lines: line(timeline, name, name.replaceAll('_', ' ')),
      height: 80,
    })),
    every_ms: timeline.every_ms,
    events: timeline.events,
  })
}

function funnel({ funnel: stages }: ScenarioRecord): Html | undefined {
  const first = stages[0]?.count ?? 0
  return barsFigure({
    title: 'Funnel from the edge to the database',
    caption: 'What each stage passes on, as a count and as a share of the first.',
    unit: 'count',
    names: stages.map(({ stage }) => stage),
    series: [{ name: 'count', values: stages.map(({ count }) => count) }],
    label: (count) => (first > 0 ? `${number(count)} · ${percent(count / first)}` : number(count)),
  })
}

function processors({ cpu_seconds, seconds }: ScenarioRecord): Html | undefined {
  const spent = Object.entries(cpu_seconds).sort(([, a], [, b]) => b - a)
  return barsFigure({
    title: 'Processor time by process',
    caption: 'Seconds of CPU, and as a share of one core over the scenario.',
    unit: 'seconds of CPU',
    names: spent.map(([name]) => name),
    series: [{ name: 'CPU', values: spent.map(([, value]) => value) }],
    label: (value) => `${number(value)} · ${percent(value / seconds)}`,
  })
}

/** Answers come in ms and results later: on one plot, each would press the other's lines together. */
function percentiles({ latencies }: ScenarioRecord): (Html | undefined)[] {
  const isOfResult = ({ name }: LatencyRecord) => /^(deliver|told)/.test(name)
  return [
    percentilesFigure(
      'Latency of answers',
      'From when a request was due, so that waiting behind a slow one counts.',
      latencies.filter((latency) => !isOfResult(latency)),
    ),
    percentilesFigure(
      'Latency of results',
      'From the acceptance until the coupon is there, and told.',
      latencies.filter(isOfResult),
    ),
  ]
}

/** All plots of a scenario for which there is something to plot. */
export function scenarioFigures(scenario: ScenarioRecord): Html[] {
  const timeline = thinTimeline(scenario.timeline)
  return [
    answers(timeline),
    stock(timeline),
    latency(timeline),
    ...percentiles(scenario),
    funnel(scenario),
    processors(scenario),
    others(timeline),
  ].filter((figure) => figure !== undefined)
}
