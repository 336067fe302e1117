import type { ScenarioRecord } from '../../record/record.ts'
import { number, percent, scalar, seconds } from '../text/format.ts'
import { type Fragment, type Html, html } from '../text/html.ts'
import { outcome, pairs, table } from '../text/table.ts'
import { scenarioFigures } from './scenarioFigures.ts'
import { type Report, section, violationsList } from './section.ts'
import { scenarioId } from './summary.ts'

function criteria(scenario: ScenarioRecord): Html {
  if (scenario.criteria.length === 0) return html`<p class="absent">It has no criteria of its own.</p>`
  return table(
    'Criteria',
    [
      { head: 'asked', cell: (criterion) => criterion.name },
      { head: 'found', cell: (criterion) => criterion.found },
      { head: 'verdict', cell: (criterion) => outcome(criterion.passed) },
    ],
    scenario.criteria,
  )
}

function codes({ codes, answered }: ScenarioRecord): Html {
  return table(
    'Answers by code',
    [
      { head: 'code', cell: ([code]) => code },
      { head: 'answers', right: true, cell: ([, count]) => number(count) },
      { head: 'share', right: true, cell: ([, count]) => percent(count / answered) },
    ],
    Object.entries(codes).sort(([, a], [, b]) => b - a),
  )
}

/** What stands behind the figures: who came, how it was set, what it cost. */
function background(scenario: ScenarioRecord): Fragment {
  const { commands, distribution, settings, sizes, offered } = scenario
  return html`<div class="tables">${[
    codes(scenario),
    pairs('Redis commands as billed', [
      ['edge', number(commands.edge)],
      ['core', number(commands.core)],
    ]),
    pairs(
      'Who came',
      distribution.map(({ name, count }) => [name, number(count)]),
    ),
    pairs(
      'Bytes of a typical request and answer',
      Object.entries(sizes).map(([name, bytes]) => [name, number(bytes)]),
    ),
    scenario.figures !== undefined &&
      pairs(
        'Further figures',
        Object.entries(scenario.figures).map(([name, value]) => [name.replaceAll('_', ' '), number(value)]),
      ),
    pairs('Settings', [
      ['seconds', number(scenario.seconds)],
      ['offered', number(offered)],
      ...Object.entries(settings).map(([name, value]) => [name, scalar(value)] as const),
    ]),
  ]}</div>
`
}

/** One scenario: what was asked, what was found, and how it went. */
export function scenarioSection(scenario: ScenarioRecord): Html {
  return section(
    scenarioId(scenario.name),
    scenario.title || scenario.name,
    html`<p><code>${scenario.name}</code> ${outcome(scenario.passed)} in ${seconds(scenario.seconds)}. ${scenario.about}</p>
`,
    violationsList(scenario.violations),
    criteria(scenario),
    html`<div class="figures">${scenarioFigures(scenario)}</div>
`,
    background(scenario),
  )
}

export const scenarioSections = ({ record }: Report): Html[] => record.scenarios.map(scenarioSection)
