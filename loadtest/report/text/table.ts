import { type Fragment, Html, html } from './html.ts'

export interface Column<Row> {
  readonly head: string
  cell(row: Row): Fragment
  /** Numbers stand to the right, so that their digits are under each other. */
  readonly right?: boolean
}

/** A table that scrolls in itself where the page is narrower; its first column heads the rows. */
export function table<Row>(caption: string, columns: readonly Column<Row>[], rows: readonly Row[]): Html {
  // A table of nothing but numbers says so once: there are hundreds of them behind the folds of a report.
  const allRight = columns.every(({ right }) => right)
  const kind = ({ right }: Column<Row>) => (right && !allRight ? new Html(' class="right"') : '')
  const head = columns.map((column) => html`<th scope="col"${kind(column)}>${column.head}</th>`)
  const body = rows.map((row) => {
    const [first, ...others] = columns
    return html`<tr><th scope="row"${kind(first!)}>${first!.cell(row)}</th>${others.map(
      (column) => html`<td${kind(column)}>${column.cell(row)}</td>`,
    )}</tr>
`
  })
  return html`<div class="scroll" role="group" aria-label="${caption}" tabindex="0"><table${allRight && new Html(' class="figures-only"')}>
<caption>${caption}</caption>
<thead><tr>${head}</tr></thead>
<tbody>
${body}</tbody></table></div>
`
}

/** A table of two columns: names and what they are. */
export function pairs(caption: string, entries: readonly (readonly [string, Fragment])[]): Html {
  if (entries.length === 0) return html`<p class="absent">${caption}: nothing recorded.</p>`
  return table(
    caption,
    [
      { head: 'name', cell: ([name]) => name },
      { head: 'value', cell: ([, value]) => value },
    ],
    entries,
  )
}

/** The word for an outcome, told by sign and word, and not by colour alone. */
export function outcome(passed: boolean, words: readonly [string, string] = ['passed', 'failed']): Html {
  return passed ? html`<span class="good">✓ ${words[0]}</span>` : html`<span class="bad">✗ ${words[1]}</span>`
}
