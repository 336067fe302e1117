import type { Context, NotFoundHandler } from 'hono'
import { TrieRouter } from 'hono/router/trie-router'
import { problemResponse } from './problems.ts'
import type { CoreApp, HttpEnv } from './types.ts'

/** A path that exists under other methods is 405 with Allow, anything else 404. */
export function notFound(app: CoreApp): NotFoundHandler<HttpEnv> {
  let allowed: ((path: string) => string[]) | undefined
  return (c: Context<HttpEnv>) => {
    // Routes are complete only once requests come.
    allowed ??= methodsByPath(app)
    const methods = allowed(c.req.path)
    if (methods.length === 0) return problemResponse(c, 'NOT_FOUND')
    return problemResponse(c, 'METHOD_NOT_ALLOWED', undefined, { Allow: methods.join(', ') })
  }
}

function methodsByPath(app: CoreApp): (path: string) => string[] {
  const router = new TrieRouter<string>()
  const methods = new Set<string>()
  for (const { method, path } of app.routes) {
    if (method === 'ALL') continue
    router.add(method, path, method)
    methods.add(method)
  }
  return (path) => {
    const found = [...methods].filter((method) => router.match(method, path)[0].length > 0)
    return found.includes('GET') ? [...found, 'HEAD'].sort() : found.sort()
  }
}
