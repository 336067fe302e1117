import type { Hook } from '@hono/zod-openapi'
import { problemResponse } from './problems.ts'
import type { HttpEnv } from './types.ts'

const places: Record<string, string> = { json: 'body', param: 'path', query: 'query', header: 'headers' }
const issuesMax = 10

/** A request that does not have its shape: 400 with each fault, where it is and what is wrong with it. */
// biome-ignore lint/suspicious/noExplicitAny: the hook serves routes of every shape
export const refuseInvalid: Hook<any, HttpEnv, any, any> = (result, c) => {
  if (result.success) return
  const errors = result.error.issues.slice(0, issuesMax).map(({ path, message }) => ({
    in: places[result.target] ?? result.target,
    path: path.join('.'),
    message,
  }))
  const [first] = errors
  const where = first?.path === '' ? `the ${first.in}` : first?.path
  return problemResponse(c, 'INVALID_REQUEST', {
    detail: first === undefined ? 'Correct the request.' : `Correct ${where}: ${first.message}.`,
    errors,
  })
}
