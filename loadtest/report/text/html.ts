/** Text that is HTML already. Everything else that gets into a page is escaped by `html`. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type Fragment = Html | string | number | null | undefined | false | readonly Fragment[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Safe as text and inside of quoted attributes. */
export function escapeText(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!)
}

function textOf(value: Fragment): string {
  if (value === null || value === undefined || value === false) return ''
  if (value instanceof Html) return value.text
  if (Array.isArray(value)) return value.map(textOf).join('')
  return escapeText(String(value))
}

/** A template of HTML: values are escaped, other templates and lists of them are put in as they are. */
export function html(strings: TemplateStringsArray, ...values: readonly Fragment[]): Html {
  return new Html(strings.reduce((text, part, i) => text + textOf(values[i - 1]) + part))
}

/** An anchor's name: letters, digits and hyphens of a text from anywhere. */
export function slug(text: string): string {
  return (
    text
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, '-')
      .replace(/^-|-$/g, '') || 'part'
  )
}
