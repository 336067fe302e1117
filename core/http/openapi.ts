import { renderDocs } from './docs.ts'
import type { CoreApp } from './types.ts'

/** /openapi.json, and /docs to read it. Made once, on the first request: by then every part has its routes. */
export function registerOpenApiRoutes(app: CoreApp): void {
  app.openAPIRegistry.registerComponent('securitySchemes', 'login', {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'A login token; operators’ and services’ carry a role.',
  })
  app.openAPIRegistry.registerComponent('securitySchemes', 'edge', {
    type: 'apiKey',
    in: 'header',
    name: 'Tidegate-Assertion',
    description: 'The edge’s word for who the user is.',
  })
  let document: ApiDocument | undefined
  let page: string | undefined
  const read = () => {
    document ??= app.getOpenAPI31Document({ openapi: '3.1.0', info })
    return document
  }
  app.get('/openapi.json', (c) => c.json(read(), 200, { 'Cache-Control': 'public, max-age=60' }))
  app.get('/docs', (c) => {
    page ??= renderDocs(read())
    return c.html(page, 200, {
      'Cache-Control': 'public, max-age=60',
      'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    })
  })
}

export type ApiDocument = ReturnType<CoreApp['getOpenAPI31Document']>

const info = {
  title: 'Tidegate core',
  version: '1',
  description:
    'Campaigns and their governance, claims’ results and the wallet. Refusals are application/problem+json (RFC 9457): decide by `code`. Times are RFC 3339 in UTC, ids are opaque, pages are by cursor.',
}
