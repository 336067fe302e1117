import type { ScenarioRecord } from '../../record/record.ts'
import { missingFrom } from '../data/matrix.ts'
import { verdictOf } from '../data/verdict.ts'
import { ms, number } from '../text/format.ts'
import { type Html, html, slug } from '../text/html.ts'
import { outcome, table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

export const scenarioId = (name: string): string => `scenario-${slug(name)}`

const states = { passed: ['good', '✓'], failed: ['bad', '✗'], absent: ['none', '–'] } as const

/** The whole in one line, and a line for each part. */
export function verdictSection({ record }: Report): Html {
  const verdict = verdictOf(record)
  const parts = verdict.parts.map(({ part, state, says }) => {
    const [kind, sign] = states[state]
    return html`<li><span class="${kind}">${sign} ${state}</span> <a href="#${part}">${part}</a>: ${says}</li>
`
  })
  return html`<p class="verdict ${verdict.passed ? 'is-good' : 'is-bad'}" role="status">${verdict.line}</p>
<ul class="parts">${parts}</ul>
`
}

const p50 = (scenario: ScenarioRecord, name: string) =>
  scenario.latencies.find((latency) => latency.name === name && latency.count > 0)?.p50_ms
const p99 = (scenario: ScenarioRecord, name: string) =>
  scenario.latencies.find((latency) => latency.name === name && latency.count > 0)?.p99_ms

const acceptedBy = ({ codes }: ScenarioRecord) => codes['ACCEPTED'] ?? 0

/** Scenarios under each other, for a first look. */
export function summarySection({ record }: Report): Html {
  if (record.scenarios.length === 0) {
    return section(
      'scenarios',
      'Scenarios',
      absent('No scenario is in this record.', 'npm run loadtest -- all --minutes 1 --json run.json'),
    )
  }
  const missing = missingFrom(record.scenarios)
  const rows = table(
    'Scenarios: what came, what became of it, and at what cost',
    [
      { head: 'scenario', cell: (s) => html`<a href="#${scenarioId(s.name)}">${s.name}</a>` },
      { head: 'offered', right: true, cell: (s) => number(s.offered) },
      { head: 'accepted', right: true, cell: (s) => number(acceptedBy(s)) },
      { head: 'accept p50', right: true, cell: (s) => ms(p50(s, 'accept')) },
      { head: 'accept p99', right: true, cell: (s) => ms(p99(s, 'accept')) },
      { head: 'deliver p99', right: true, cell: (s) => ms(p99(s, 'deliver')) },
      {
        head: 'commands a claim',
        right: true,
        cell: (s) => (acceptedBy(s) > 0 ? number((s.commands.edge + s.commands.core) / acceptedBy(s)) : '–'),
      },
      {
        head: 'edge’s commands a request',
        right: true,
        cell: (s) => (s.answered > 0 ? number(s.commands.edge / s.answered) : '–'),
      },
      {
        head: 'criteria',
        right: true,
        cell: (s) => `${s.criteria.filter(({ passed }) => passed).length} of ${s.criteria.length}`,
      },
      { head: 'violations', right: true, cell: (s) => number(s.violations.length) },
      { head: 'verdict', cell: (s) => outcome(s.passed) },
    ],
    record.scenarios,
  )
  return section(
    'scenarios',
    'Scenarios',
    rows,
    missing.length > 0 &&
      absent(
        `Not run: ${missing.join(', ')}.`,
        `npm run loadtest -- ${missing.length === 1 ? missing[0] : 'all'} --json run.json`,
      ),
    html`<p class="note">“Commands a claim” are all that Upstash would bill, of edge and core, by accepted claims; “edge’s commands a
request” are the gate’s alone, by answers of any kind.</p>
`,
  )
}
