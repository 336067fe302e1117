import { isCaught } from '../data/verdict.ts'
import { number } from '../text/format.ts'
import { type Html, html } from '../text/html.ts'
import { outcome, pairs, table } from '../text/table.ts'
import { absent, type Report, section, violationsList } from './section.ts'

export function simulationSection({ record: { simulation } }: Report): Html {
  if (!simulation) {
    return section(
      'simulation',
      'Simulation',
      absent('No simulation is in this record.', 'npm run sim -- --seeds 1000 --json sim.json'),
    )
  }
  const { seeds, steps, seconds, violations, mutations } = simulation
  return section(
    'simulation',
    'Simulation',
    html`<p>The product’s own code on virtual time, its steps put in an order by a seed, with crashes, lost and late replies,
duplicates and rewinds of Redis. A planted bug has to be caught within the seeds that are allowed for it.</p>
`,
    pairs('Seeds', [
      ['seeds', number(seeds)],
      ['steps', number(steps)],
      ['seconds', number(seconds)],
      ['seeds a second', seconds > 0 ? number(seeds / seconds) : '–'],
      ['violations', number(violations.length)],
    ]),
    violationsList(violations),
    mutations.length === 0
      ? absent('No planted bug was run.', 'npm run sim -- --mutations --json sim.json')
      : table(
          'Planted bugs',
          [
            { head: 'bug', cell: (one) => one.name },
            { head: 'what it does', cell: (one) => one.about },
            { head: 'allowed seeds', right: true, cell: (one) => number(one.allowed_seeds) },
            {
              head: 'caught at seed',
              right: true,
              cell: (one) => (one.caught_at === null ? 'never' : number(one.caught_at)),
            },
            { head: 'verdict', cell: (one) => outcome(isCaught(one), ['caught', 'escaped']) },
          ],
          mutations,
        ),
  )
}
