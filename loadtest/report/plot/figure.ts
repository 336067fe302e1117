import { type Fragment, type Html, html } from '../text/html.ts'

export interface FigureParts {
  readonly title: string
  /** What is to be seen in it, in a sentence. */
  readonly caption?: Fragment
  readonly plot: Html
  readonly legend?: Html
  /** The numbers of the plot, behind a fold. */
  readonly numbers: Html
}

export function figure({ title, caption, plot, legend, numbers }: FigureParts): Html {
  return html`<figure>
<figcaption><strong>${title}</strong>${caption ? html` ${caption}` : null}</figcaption>
${plot}
${legend}
<details class="numbers"><summary>Numbers: ${title}</summary>
${numbers}</details>
</figure>
`
}
