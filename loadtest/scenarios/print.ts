import type { ScenarioRecord } from '../record/record.ts'

/** A scenario's end on the terminal: what came, how long it took, what it cost, and the verdict. */
export function printScenario(record: ScenarioRecord): void {
  for (const line of linesOf(record)) console.log(`  ${line}`)
}

export function linesOf(record: ScenarioRecord): string[] {
  const {
    offered,
    answered,
    codes,
    commands,
    funnel,
    latencies,
    cpu_seconds: cpu,
    criteria,
    violations,
  } = record
  const list = (entries: readonly (readonly [string, number])[]) =>
    entries.map(([name, count]) => `${name} ${count}`).join(', ')
  return [
    `${record.settings['requests/s at the peak']} requests/s at the peak, ${record.seconds} s until all was settled`,
    `offered ${offered}, answered ${answered}: ${list(Object.entries(codes).sort(([, a], [, b]) => b - a))}`,
    `funnel  ${funnel.map(({ stage, count }) => `${stage} ${count}`).join(' → ')}`,
    ...latencies.map(
      ({ name, count, p50_ms, p99_ms, max_ms }) =>
        `${name.padEnd(16)} p50 ${p50_ms} ms, p99 ${p99_ms} ms, max ${max_ms} ms (${count})`,
    ),
    `Redis commands: edge ${commands.edge}, core ${commands.core}; CPU s: ${list(Object.entries(cpu))}`,
    `figures ${list(Object.entries(record.figures ?? {}))}`,
    ...record.timeline.events.map(({ at_ms, label }) => `at ${(at_ms / 1000).toFixed(1)} s: ${label}`),
    ...criteria.map(({ name, found, passed }) => `${passed ? 'passed' : 'MISSED'}  ${name}: ${found}`),
    ...violations.map((violation) => `BROKEN  ${violation}`),
    record.passed ? 'passed' : 'FAILED',
  ]
}
