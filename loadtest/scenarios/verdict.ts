import type { Criterion, ScenarioRecord } from '../record/record.ts'

/** What was found of a scenario, before it is judged. */
export type Measured = Omit<ScenarioRecord, 'criteria' | 'passed'>

/** A figure that must not be above its bound. What was not found has not passed. */
export function atMost(what: string, found: number | undefined, bound: number, unit = ''): Criterion {
  return {
    name: `${what} ≤ ${show(bound, unit)}`,
    found: told(found, unit),
    passed: found !== undefined && found <= bound,
  }
}

/** A figure that must not be below its bound. */
export function atLeast(what: string, found: number | undefined, bound: number, unit = ''): Criterion {
  return {
    name: `${what} ≥ ${show(bound, unit)}`,
    found: told(found, unit),
    passed: found !== undefined && found >= bound,
  }
}

/** Something that must not happen at all. */
export function none(what: string, found: number | undefined): Criterion {
  return { name: `no ${what}`, found: told(found, ''), passed: found === 0 }
}

/** A percentile of a latency; undefined where there was none of that name. */
export function latency(
  { latencies }: Measured,
  name: string,
  percentile: 'p50_ms' | 'p90_ms' | 'p99_ms' | 'p999_ms' | 'max_ms',
): number | undefined {
  const found = latencies.find((one) => one.name === name)
  return found === undefined || found.count === 0 ? undefined : found[percentile]
}

const unansweredPercent = 0.05

/** What every scenario must keep, whatever else it is watched for. */
export function common(measured: Measured): Criterion[] {
  const { offered, answered, violations, figures = {} } = measured
  return [
    {
      name: 'every invariant holds (auditor)',
      found: violations.length === 0 ? 'none broken' : violations.join('; '),
      passed: violations.length === 0,
    },
    atLeast('people came: requests', offered, 1),
    // A kept connection may be closed in the very moment in which it is used again: the client repeats.
    atMost(
      'requests without an answer',
      ((offered - answered - (figures['unanswered_allowed'] ?? 0)) / Math.max(1, offered)) * 100,
      unansweredPercent,
      '%',
    ),
    none('outcome left unknown to a client', figures['unknown_left']),
    none('acceptance left undelivered', figures['undelivered']),
  ]
}

/** The scenario as it goes into the record. It has passed when each criterion has, and there are some. */
export function conclude(measured: Measured, own: readonly Criterion[]): ScenarioRecord {
  const criteria = [...common(measured), ...own]
  return { ...measured, criteria, passed: own.length > 0 && criteria.every(({ passed }) => passed) }
}

function show(value: number, unit: string): string {
  const rounded = Math.abs(value) >= 100 ? Math.round(value) : Math.round(value * 1000) / 1000
  return unit === '' ? `${rounded}` : `${rounded} ${unit}`
}

function told(value: number | undefined, unit: string): string {
  return value === undefined ? 'not measured' : show(value, unit)
}
