import { isNear } from '../data/verdict.ts'
import { number, percent, scalar } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, pairs, table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

export function capacitySection({ record: { capacity } }: Report): Html {
  if (!capacity) {
    return section(
      'capacity',
      'Capacity',
      absent(
        'No capacity plan is in this record.',
        'npm run loadtest -- capacity --target 100000 --quota 50000 --json capacity.json',
      ),
    )
  }
  const { question, unit_costs, needs, bottleneck, validations } = capacity
  return section(
    'capacity',
    'Capacity',
    html`<p>What a traffic would need, from unit costs and published limits. Bottleneck: <strong>${bottleneck}</strong></p>
`,
    table(
      'Needs',
      [
        { head: 'what', cell: (need) => need.what },
        { head: 'amount', right: true, cell: (need) => need.amount },
        { head: 'why', cell: (need) => need.why },
      ],
      needs,
    ),
    validations.length === 0
      ? html`<p class="absent">Its predictions were not held against measured runs.</p>
`
      : table(
          'Predictions beside runs that were not used for the unit costs',
          [
            { head: 'run', cell: (one) => one.run },
            { head: 'what', cell: (one) => one.what },
            { head: 'predicted', right: true, cell: (one) => number(one.predicted) },
            { head: 'measured', right: true, cell: (one) => number(one.measured) },
            { head: 'error', right: true, cell: (one) => percent(one.error) },
            { head: 'within 25 %', cell: (one) => outcome(isNear(one.error), ['yes', 'no']) },
          ],
          validations,
        ),
    html`<div class="tables">${[
      pairs(
        'The question',
        Object.entries(question).map(([name, value]) => [name, scalar(value)]),
      ),
      pairs(
        'Unit costs',
        Object.entries(unit_costs).map(([name, value]) => [name, number(value)]),
      ),
    ]}</div>
`,
  )
}
