import type { RunRecord, ScenarioRecord, Timeline } from '../../record/record.ts'

/** As many samples a series has at most in a report: more than a plot of 440 px can show. */
export const samplesMax = 300

type Sample = number | null
type Fold = (values: readonly number[]) => number

const mean: Fold = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
const most: Fold = (values) => Math.max(...values)
const least: Fold = (values) => Math.min(...values)
const last: Fold = (values) => values.at(-1)!

/**
 * What several samples become when they are made one. A peak must not vanish by being averaged, so latencies and
 * backlogs keep their worst, leases their shortest; levels keep their last, and rates their mean, which keeps the sum.
 */
function foldOf(name: string): Fold {
  if (name === 'lease_ms') return least
  if (name.endsWith('_ms') || name.startsWith('backlog')) return most
  return name.startsWith('remaining') || name.endsWith('_clients') ? last : mean
}

/** To what a plot and a comparison can show; whole numbers stay as they are. */
function round(value: number): number {
  const size = Math.abs(value)
  const fine = size >= 1000 ? 1 : size >= 10 ? 10 : 1000
  return Math.round(value * fine) / fine
}

function thinSeries(samples: readonly Sample[], by: number, fold: Fold): Sample[] {
  const thinned: Sample[] = []
  for (let at = 0; at < samples.length; at += by) {
    const known = samples.slice(at, at + by).filter((sample) => sample !== null)
    thinned.push(known.length === 0 ? null : round(fold(known)))
  }
  return thinned
}

/** The time line with at most `max` samples a series. Its events keep their times. */
export function thinTimeline(timeline: Timeline, max = samplesMax): Timeline {
  const longest = Math.max(0, ...Object.values(timeline.series).map((samples) => samples.length))
  const by = Math.max(1, Math.ceil(longest / max))
  return {
    every_ms: timeline.every_ms * by,
    series: Object.fromEntries(
      Object.entries(timeline.series).map(([name, samples]) => [name, thinSeries(samples, by, foldOf(name))]),
    ),
    events: timeline.events,
  }
}

export function thinRecord(record: RunRecord): RunRecord {
  const thin = (scenario: ScenarioRecord) => ({ ...scenario, timeline: thinTimeline(scenario.timeline) })
  return { ...record, scenarios: record.scenarios.map(thin) }
}

/** JSON as `JSON.stringify` writes it over lines, but a list of numbers on one: a series is a line to git. */
export function compactJson(value: unknown): string {
  const spread = JSON.stringify(value, null, 2)
  return `${spread.replace(/\[\n\s+(?:(?:-?[\d.]+(?:e[+-]?\d+)?|null),?\n\s+)+\]/gi, (list) =>
    list.replace(/\s+/g, ' ').replace('[ ', '[').replace(' ]', ']'),
  )}\n`
}
