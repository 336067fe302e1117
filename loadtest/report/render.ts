import type { RunRecord } from '../record/record.ts'
import { compare } from './data/compare.ts'
import { thinRecord } from './data/thin.ts'
import { page } from './page.ts'
import { appendixSection } from './sections/appendix.ts'
import { benchSection } from './sections/bench.ts'
import { capacitySection } from './sections/capacity.ts'
import { comparisonSection } from './sections/comparison.ts'
import { drillsSection } from './sections/drills.ts'
import { peersSection } from './sections/peers.ts'
import { scaleSection } from './sections/scale.ts'
import { scenarioSections } from './sections/scenario.ts'
import type { Report } from './sections/section.ts'
import { simulationSection } from './sections/simulation.ts'
import { summarySection, verdictSection } from './sections/summary.ts'
import { html } from './text/html.ts'

/**
 * A record as one self-contained page. The same record gives the same bytes.
 * @param earlier what it is compared with
 */
export function renderReport(whole: RunRecord, earlier?: RunRecord): string {
  const record = thinRecord(whole)
  const report: Report = {
    record,
    earlier: earlier && { record: earlier, comparison: compare(earlier, record) },
  }
  const content = html`<header>
<h1>Tidegate: load, faults and simulation of the claim path</h1>
<p class="made">${record.made_at} · commit <code>${record.commit}</code> · ${record.machine.cpu_model}, ${record.machine.cpus} cores,
${record.machine.os}</p>
</header>
<main>
${[
  verdictSection(report),
  summarySection(report),
  comparisonSection(report),
  ...scenarioSections(report),
  drillsSection(report),
  simulationSection(report),
  peersSection(report),
  scaleSection(report),
  capacitySection(report),
  benchSection(report),
  appendixSection(report),
]}</main>
`
  return page(`Tidegate load test, ${record.made_at.slice(0, 10)}`, content)
}
