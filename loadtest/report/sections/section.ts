import type { RunRecord } from '../../record/record.ts'
import type { Comparison } from '../data/compare.ts'
import { type Fragment, type Html, html } from '../text/html.ts'

/** What every section is made from. */
export interface Report {
  readonly record: RunRecord
  /** With the earlier record's date and commit; undefined where none was given. */
  readonly earlier?: { readonly record: RunRecord; readonly comparison: Comparison } | undefined
}

export function section(id: string, title: string, ...content: readonly Fragment[]): Html {
  return html`<section id="${id}" aria-labelledby="${id}-title">
<h2 id="${id}-title">${title}</h2>
${content}</section>
`
}

/** A part that was not run is said, not left out. */
export function absent(what: string, command: string): Html {
  return html`<p class="absent">${what} Make it with <code>${command}</code>.</p>
`
}

/** Sentences of what broke; nothing where nothing did. */
export function violationsList(violations: readonly string[]): Fragment {
  if (violations.length === 0) return null
  return html`<ul class="violations">${violations.map((violation) => html`<li>${violation}</li>`)}</ul>
`
}
