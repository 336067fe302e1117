import type { DrillRecord } from '../../record/record.ts'
import { number } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, table } from '../text/table.ts'
import { absent, type Report, section, violationsList } from './section.ts'

const figuresOf = ({ figures }: DrillRecord) =>
  Object.entries(figures)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${number(value)}`)
    .join(', ')

export function drillsSection({ record: { drills } }: Report): Html {
  if (!drills || drills.length === 0)
    return section(
      'drills',
      'Drills',
      absent('No drill is in this record.', 'npm run drill -- all --json drills.json'),
    )
  const failed = drills.filter((drill) => !drill.passed && drill.skipped === undefined)
  const others = drills.filter((drill) => !failed.includes(drill))
  return section(
    'drills',
    'Drills',
    html`<p>Faults with real processes while people claim, each judged afterwards by code that shares nothing with the path.</p>
`,
    table(
      'Drills, those that failed first',
      [
        { head: 'drill', cell: (drill) => drill.name },
        {
          head: 'verdict',
          cell: (drill) =>
            drill.skipped === undefined ? outcome(drill.passed) : html`<span class="none">– not run</span>`,
        },
        {
          head: 'about',
          cell: (drill) => [drill.about || '–', drill.skipped && ` Not run: ${drill.skipped}`],
        },
        { head: 'figures', cell: figuresOf },
        {
          head: 'violations',
          cell: ({ violations }) => (violations.length > 0 ? violationsList(violations) : 'none'),
        },
      ],
      [...failed, ...others],
    ),
  )
}
