import { createRoute, z } from '@hono/zod-openapi'
import type { Context } from 'hono'
import { isCampaignId } from '../../schema/campaignId.ts'
import { limits } from '../../schema/limits.ts'
import { auditAnswer, auditRowShape, readAudit } from '../audit.ts'
import { campaignRoles } from '../campaigns/permissions.ts'
import type { CommandContext } from '../command.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { forbidden, type Role } from './identity.ts'
import { decodeCursor, encodeCursor, pageOf, pageQuery, pageShape } from './pages.ts'
import { json, problems } from './shapes.ts'
import type { CoreApp, HttpEnv } from './types.ts'

/** What all admin routes share, and the audit log. */

const keyForm = new RegExp(
  `^[\\x21-\\x7e]{${limits.idempotencyKeyCharsMin},${limits.idempotencyKeyCharsMax}}$`,
)

/** @throws Refused PRECONDITION_REQUIRED, INVALID_REQUEST */
export function commandContext(c: Context<HttpEnv>, deps: Deps): CommandContext {
  const idempotencyKey = c.req.header('Idempotency-Key')
  if (idempotencyKey === undefined)
    throw new Refused('PRECONDITION_REQUIRED', {
      detail:
        'Send an Idempotency-Key: a text of your own, new for each command, the same when you repeat it.',
    })
  if (!keyForm.test(idempotencyKey))
    throw new Refused('INVALID_REQUEST', {
      detail: `Correct Idempotency-Key: give 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters.`,
    })
  return { deps, caller: c.get('caller'), idempotencyKey }
}

/** The version that the caller saw. @throws Refused PRECONDITION_REQUIRED, INVALID_REQUEST */
export function expectedVersion(c: Context<HttpEnv>): number {
  const header = c.req.header('If-Match')
  if (header === undefined)
    throw new Refused('PRECONDITION_REQUIRED', {
      detail: 'Send If-Match with the ETag of what you read, so that you change nothing unseen.',
    })
  const match = /^(?:W\/)?"(\d{1,15})"$/.exec(header.trim())
  if (match === null)
    throw new Refused('INVALID_REQUEST', {
      detail: 'Correct If-Match: give one ETag as you read it, like "3".',
    })
  return Number(match[1])
}

/** An id that we never made is not looked up. @throws Refused CAMPAIGN_NOT_FOUND */
export function campaignIdOf(id: string, { keyrings }: Deps): string {
  if (!isCampaignId(id, keyrings.campaignId)) throw new Refused('CAMPAIGN_NOT_FOUND')
  return id
}

/** Postgres has no text with a zero character. */
const searched = (charsMax: number) =>
  z
    .string()
    .max(charsMax)
    .regex(/^[^\0]*$/, 'it has a zero character')
    .optional()

const auditRoute = createRoute({
  method: 'get',
  path: '/admin/v1/audit',
  tags: ['Audit'],
  summary: 'Commands, done and refused, newest first',
  security: [{ login: [] }],
  request: {
    query: z.object({
      ...pageQuery,
      target: searched(128),
      actor: searched(limits.userIdCharsMax),
      outcome: z.enum(['done', 'refused']).optional(),
    }),
  },
  responses: {
    200: json(pageShape(auditRowShape), 'A page of the audit log'),
    ...problems(400, 401, 403),
  },
})

export function registerAdminRoutes(app: CoreApp, deps: Deps): void {
  // Before anything of the request is looked at: an unknown caller learns nothing, not even what is malformed.
  app.use('/admin/*', async (c, next) => {
    c.set('caller', await deps.identity.caller(c))
    c.header('Cache-Control', 'no-store')
    await next()
  })

  app.openapi(auditRoute, async (c) => {
    requireRole(c, campaignRoles.readAudit)
    const { limit, cursor, target, actor, outcome } = c.req.valid('query')
    const after = cursor === undefined ? undefined : decodeCursor(cursor)
    const rows = await readAudit(deps.db.admin, { limit: limit + 1, after, target, actor, outcome })
    return c.json(
      pageOf(rows, limit, auditAnswer, ({ at, auditId }) => encodeCursor(at, auditId)),
      200,
    )
  })
}

/** @throws Refused FORBIDDEN */
export function requireRole(c: Context<HttpEnv>, allowed: readonly Role[]): void {
  const { role } = c.get('caller')
  if (role === undefined || !allowed.includes(role)) throw forbidden(allowed)
}
