import type { Comparison, Difference } from '../data/compare.ts'
import { bands } from '../data/figures.ts'
import { many, number, percent } from '../text/format.ts'
import { type Fragment, type Html, html } from '../text/html.ts'
import { table } from '../text/table.ts'
import { absent, type Report, section } from './section.ts'

const signs = {
  better: ['good', '▲ better'],
  worse: ['bad', '▼ worse'],
  'within noise': ['none', '= within noise'],
} as const

const said = (says: Difference['says']): Html => {
  const [kind, words] = signs[says]
  return html`<span class="${kind}">${words}</span>`
}

const value = (difference: Difference, which: 'before' | 'after') =>
  `${number(difference[which])}${difference.unit ? ` ${difference.unit}` : ''}`

/** `1.20 × (higher)`: the ratio, and in words which way it went. */
function moved({ ratio, before, after }: Difference): string {
  const way = after > before ? 'higher' : after < before ? 'lower' : 'same'
  return ratio === undefined ? way : `${ratio.toFixed(2)} × (${way})`
}

function differencesTable(caption: string, differences: readonly Difference[]): Html {
  return table(
    caption,
    [
      { head: 'where', cell: (d) => d.where },
      { head: 'what', cell: (d) => d.what },
      { head: 'before', right: true, cell: (d) => value(d, 'before') },
      { head: 'now', right: true, cell: (d) => value(d, 'after') },
      { head: 'now ÷ before', right: true, cell: moved },
      { head: 'verdict', cell: (d) => said(d.says) },
    ],
    differences,
  )
}

/** A fold around long lists that most readers don't need. */
function folded(summary: string, content: Fragment): Html {
  return html`<details><summary>${summary}</summary>
${content}</details>
`
}

const list = (sentences: readonly string[]) => html`<ul>${sentences.map((s) => html`<li>${s}</li>`)}</ul>
`

function bandsNote(): Html {
  const told = Object.entries(bands).map(
    ([name, { share, least }]) => `${name} ±${percent(share)}${least > 0 ? ` and ${least} ms` : ''}`,
  )
  return html`<p class="note">Noise: ${told.join(', ')}. What passed before and fails now is told whatever the noise.</p>
`
}

function contentOf(comparison: Comparison): Fragment[] {
  const { differences, turns, added, gone, cautions } = comparison
  const beyond = (['worse', 'better'] as const).flatMap((says) =>
    differences.filter((one) => one.says === says),
  )
  const same = differences.filter(({ says }) => says === 'within noise')
  const count = (says: Difference['says']) => differences.filter((one) => one.says === says).length
  const summary = `${many(differences.length, 'figure')} compared: ${count('better')} better, ${count('worse')} worse, ${same.length} within noise; ${many(turns.length, 'criterion or part', 'criteria or parts')} changed sides.`
  return [
    html`<p>${summary}</p>
`,
    cautions.length > 0 &&
      folded(
        `${many(cautions.length, 'reason')} for caution: the two runs differ in more than the program`,
        list(cautions),
      ),
    turns.length > 0 &&
      table(
        'What changed sides',
        [
          { head: 'where', cell: (turn) => turn.where },
          { head: 'what', cell: (turn) => turn.what },
          {
            head: 'change',
            cell: (turn) =>
              turn.says === 'better' ? 'failed before, passes now' : 'passed before, fails now',
          },
          { head: 'verdict', cell: (turn) => said(turn.says) },
        ],
        turns,
      ),
    beyond.length > 0 && differencesTable('Beyond noise', beyond),
    same.length > 0 &&
      folded(`Within noise: ${many(same.length, 'figure')}`, differencesTable('Within noise', same)),
    added.length > 0 && folded(`Only in this record: ${many(added.length, 'figure')}`, list(added)),
    gone.length > 0 && folded(`Only in the earlier record: ${many(gone.length, 'figure')}`, list(gone)),
    bandsNote(),
  ]
}

export function comparisonSection({ earlier }: Report): Html {
  if (!earlier) {
    return section(
      'comparison',
      'Compared with earlier',
      absent(
        'No earlier record was given.',
        'npm run loadtest -- report --in run.json --before earlier.json --html report.html',
      ),
    )
  }
  const { record, comparison } = earlier
  return section(
    'comparison',
    'Compared with earlier',
    html`<p>Earlier: ${record.made_at}, commit <code>${record.commit}</code>, by <code>${record.command}</code>.</p>
`,
    contentOf(comparison),
  )
}
