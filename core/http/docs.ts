import type { ApiDocument } from './openapi.ts'

/**
 * The API's pages: one file without scripts or anything from elsewhere, so that it opens where no CDN can be
 * reached (the Scalar package only loads its viewer from one).
 */

interface Operation {
  method: string
  path: string
  summary?: string
  description?: string
  tags?: string[]
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: Schema }[]
  requestBody?: { content: Content; required?: boolean }
  responses?: Record<string, { description: string; content?: Content }>
  security?: Record<string, unknown>[]
}
type Content = Record<string, { schema?: Schema }>
type Schema = Record<string, unknown>

export function renderDocs(api: ApiDocument): string {
  const groups = Map.groupBy(operationsOf(api), ({ tags }) => tags?.[0] ?? 'Other')
  const nav = [...groups]
    .map(
      ([tag, operations]) =>
        `<h2>${text(tag)}</h2><ul>${operations
          .map((op) => `<li><a href="#${anchor(op)}"><b>${op.method}</b> ${text(op.path)}</a></li>`)
          .join('')}</ul>`,
    )
    .join('')
  const main = [...groups]
    .map(
      ([tag, operations]) =>
        `<section><h2>${text(tag)}</h2>${operations.map(renderOperation).join('')}</section>`,
    )
    .join('')
  const schemas = Object.entries((api.components?.schemas ?? {}) as Record<string, Schema>)
    .map(([name, schema]) => `<h3 id="schema-${text(name)}">${text(name)}</h3>${renderSchema(schema)}`)
    .join('')
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>${text(api.info.title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>${style}</style>
<nav aria-label="Operations"><h1>${text(api.info.title)}</h1><p><a href="/openapi.json">openapi.json</a></p>${nav}
<h2><a href="#schemas">Schemas</a></h2></nav>
<main><p>${text(api.info.description ?? '')}</p>${main}<section id="schemas"><h2>Schemas</h2>${schemas}</section></main></html>`
}

function operationsOf(api: ApiDocument): Operation[] {
  return Object.entries(api.paths ?? {}).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Omit<Operation, 'method' | 'path'>>).map(([method, operation]) => ({
      ...operation,
      method: method.toUpperCase(),
      path,
    })),
  )
}

function renderOperation(op: Operation): string {
  const parameters = (op.parameters ?? []).map(
    (parameter) =>
      `<tr><td><code>${text(parameter.name)}</code>${parameter.required ? ' *' : ''}</td><td>${parameter.in}</td><td>${text(parameter.description ?? '')} <code>${text(brief(parameter.schema))}</code></td></tr>`,
  )
  const responses = Object.entries(op.responses ?? {}).map(
    ([status, { description, content }]) =>
      `<tr><td><code>${status}</code></td><td>${text(description)}</td><td>${linksOf(content)}</td></tr>`,
  )
  const auth = (op.security ?? []).flatMap((scheme) => Object.keys(scheme))
  return `<article id="${anchor(op)}"><h3><b>${op.method}</b> ${text(op.path)}</h3><p>${text(op.summary ?? '')}</p>
${op.description ? `<p>${text(op.description)}</p>` : ''}${auth.length ? `<p>Needs: ${text(auth.join(' or '))}</p>` : ''}
${parameters.length ? `<table><caption>Parameters (* needed)</caption>${parameters.join('')}</table>` : ''}
${op.requestBody ? `<h4>Body</h4>${renderContent(op.requestBody.content)}` : ''}
<table><caption>Answers</caption>${responses.join('')}</table></article>`
}

function renderContent(content: Content): string {
  return Object.entries(content)
    .map(([type, { schema }]) => `<p><code>${text(type)}</code></p>${schema ? renderSchema(schema) : ''}`)
    .join('')
}

function linksOf(content: Content | undefined): string {
  return Object.values(content ?? {})
    .map(({ schema }) => {
      const name = refOf(schema)
      if (name !== undefined) return `<a href="#schema-${text(name)}">${text(name)}</a>`
      return schema ? `<details><summary>shape</summary>${renderSchema(schema)}</details>` : ''
    })
    .join('')
}

function refOf(schema: Schema | undefined): string | undefined {
  const ref = schema?.['$ref']
  return typeof ref === 'string' ? ref.slice(ref.lastIndexOf('/') + 1) : undefined
}

function renderSchema(schema: Schema): string {
  return `<pre>${text(JSON.stringify(schema, null, 2))}</pre>`
}

/** A parameter's shape in a few words. */
function brief(schema: Schema | undefined): string {
  if (schema === undefined) return ''
  const { type, enum: options, minimum, maximum, default: fallback } = schema
  const range = minimum === undefined && maximum === undefined ? '' : ` ${minimum ?? ''}…${maximum ?? ''}`
  const choice = Array.isArray(options) ? options.join(' | ') : `${type ?? refOf(schema) ?? ''}${range}`
  return fallback === undefined ? choice : `${choice}, ${JSON.stringify(fallback)} unless given`
}

function anchor({ method, path }: Operation): string {
  return `${method.toLowerCase()}${path.replaceAll(/[^A-Za-z0-9]+/g, '-')}`
}

function text(raw: string): string {
  return raw
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

const style = `
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}
body{margin:0;display:grid;grid-template-columns:minmax(16rem,24rem) 1fr}
nav{padding:1rem;height:100vh;overflow:auto;position:sticky;top:0;box-sizing:border-box;border-right:1px solid #8884}
nav h1{font-size:1.2rem}nav h2,h4{font-size:1rem}nav ul{list-style:none;padding:0}nav li{overflow-wrap:anywhere}
main{padding:1rem 2rem;max-width:60rem;min-width:0}article{border-top:1px solid #8884;padding-top:.5rem}
b{font-family:ui-monospace,monospace}table{border-collapse:collapse;margin:1rem 0;width:100%}caption{text-align:left;font-weight:600}
td{border-top:1px solid #8884;padding:.25rem .5rem;vertical-align:top}pre{overflow:auto;padding:.75rem;background:#8881;font-size:.85rem}
@media(max-width:50rem){body{display:block}nav{position:static;height:auto}}`
