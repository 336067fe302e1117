import { type Budget, budgets, foundFor, holds } from '../data/budgets.ts'
import { number, scalar } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, pairs, table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

const where = ({ suite, figure, latency }: Budget) =>
  suite ? `bench ${suite}: ${figure}` : `opening-flood: ${latency} p99`

/** DESIGN §10's budgets, whatever measured them; those that nothing did are named. */
export function benchSection({ record }: Report): Html {
  const rows = budgets.map((budget) => ({ budget, found: foundFor(budget, record) }))
  const suites = Object.entries(record.bench ?? {})
  return section(
    'budgets',
    'Budgets',
    table(
      'Budgets of DESIGN §10',
      [
        { head: 'what', cell: ({ budget }) => budget.what },
        {
          head: 'budget',
          right: true,
          cell: ({ budget }) => `${budget.is} ${number(budget.bound)} ${budget.unit}`,
        },
        { head: 'found', right: true, cell: ({ found }) => number(found) },
        {
          head: 'verdict',
          cell: ({ budget, found }) =>
            found === undefined
              ? html`<span class="none">– not measured</span>`
              : outcome(holds(budget, found), ['held', 'missed']),
        },
        { head: 'where', cell: ({ budget }) => where(budget) },
      ],
      rows,
    ),
    suites.length === 0
      ? absent('No bench is in this record.', 'npm run bench -- all --json bench.json')
      : suites.map(
          ([suite, figures]) => html`<details><summary>All figures of bench ${suite}</summary>
${pairs(
  `bench ${suite}`,
  Object.entries(figures).map(([name, value]) => [name, scalar(value)]),
)}</details>
`,
        ),
  )
}
