import { barsFigure } from '../plot/bars.ts'
import { number, scalar } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { table } from '../text/table.ts'
import { absent, type Report, section, violationsList } from './section.ts'

export function scaleSection({ record: { scale } }: Report): Html {
  if (!scale || scale.length === 0)
    return section(
      'scale',
      'Scale',
      absent('No run of scale is in this record.', 'npm run loadtest -- scale --json scale.json'),
    )
  const rates = barsFigure({
    title: 'Throughput by how it is spread',
    unit: 'a second',
    names: scale.map(({ name }) => name),
    series: [
      { name: 'claims', values: scale.map((one) => one.claims_per_second) },
      { name: 'delivered', values: scale.map((one) => one.delivered_per_second) },
    ],
  })
  const commands = barsFigure({
    title: 'Redis commands a claim',
    caption: 'As Upstash bills them, edge and core.',
    unit: 'commands',
    names: scale.map(({ name }) => name),
    series: [{ name: 'commands', values: scale.map((one) => one.commands_per_claim) }],
  })
  return section(
    'scale',
    'Scale',
    html`<p>The same load on more buckets, Redis servers, cores and workers, all on one machine: where the machine is at its
limit, more processes can’t be faster, and the table says so.</p>
`,
    table(
      'Runs',
      [
        { head: 'run', cell: (one) => one.name },
        { head: 'claims a second', right: true, cell: (one) => number(one.claims_per_second) },
        { head: 'delivered a second', right: true, cell: (one) => number(one.delivered_per_second) },
        { head: 'commands a claim', right: true, cell: (one) => number(one.commands_per_claim) },
        { head: 'bound by', cell: (one) => one.bound_by },
        {
          head: 'about',
          cell: (one) => {
            const settings = Object.entries(one.settings).map(([name, value]) => `${name} ${scalar(value)}`)
            return `${one.about}${settings.length ? ` (${settings.join(', ')})` : ''}`
          },
        },
        {
          head: 'violations',
          cell: ({ violations }) => (violations.length > 0 ? violationsList(violations) : 'none'),
        },
      ],
      scale,
    ),
    html`<div class="figures">${[rates, commands]}</div>
`,
  )
}
