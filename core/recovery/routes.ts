import { createRoute, z } from '@hono/zod-openapi'
import { campaignRoles } from '../campaigns/permissions.ts'
import { lineOf } from '../campaigns/shapes.ts'
import { claimShape } from '../claim/routes.ts'
import { authorise, execute, replaceAnswer } from '../command.ts'
import type { Deps } from '../deps.ts'
import type { Guardian } from '../guardian/guardian.ts'
import { withheldWords } from '../guardian/lease.ts'
import { campaignIdOf, commandContext, requireRole } from '../http/admin.ts'
import { idempotencyHeader, json, problems } from '../http/shapes.ts'
import type { CoreApp } from '../http/types.ts'
import { honourReceipt } from './honour.ts'
import { planRebuild, rebuildCampaign } from './plan.ts'

const about = { tags: ['Recovery'], security: [{ login: [] }] }
const idParam = z.object({ id: z.string().openapi({ param: { name: 'id', in: 'path' } }) })
const numbers = z.record(z.string(), z.int())

const leasesShape = z
  .object({
    data: z.array(
      z.object({
        campaign_id: z.string(),
        bucket: z.int(),
        lease_until: z.iso.datetime().nullable(),
        withheld: z
          .object({ reason: z.string(), means: z.string(), detail: z.string().optional() })
          .nullable()
          .openapi({ description: 'Why it gets no lease; null: it gets one.' }),
      }),
    ),
  })
  .openapi('Leases')

const planShape = z
  .object({
    campaign_id: z.string(),
    missing: z.int(),
    buckets: z.array(
      z.object({ bucket: z.int(), redis: numbers.nullable(), ledger: numbers, written_off: z.int() }),
    ),
  })
  .openapi('RebuildPlan')

const rebuiltShape = z
  .object({
    campaign_id: z.string(),
    buckets: z.array(
      z.object({
        bucket: z.int(),
        outcome: z.enum(['rebuilt', 'not_needed', 'busy', 'draining', 'lost_again', 'unbalanced']),
        numbers: numbers.optional(),
        entries: z.int().optional(),
        detail: z.string().optional(),
      }),
    ),
  })
  .openapi('Rebuilt')
type Rebuilt = z.infer<typeof rebuiltShape>

const receiptShape = z
  .object({ receipt: z.string().min(1).max(2_000).openapi({ description: 'As the acceptance gave it.' }) })
  .strict()

/** Leases and their reasons, rebuilds, and receipts of acceptances that Redis lost. */
export function registerRecoveryRoutes(app: CoreApp, deps: Deps, guardian: Pick<Guardian, 'view'>): void {
  registerLeases(app, guardian)
  registerRebuild(app, deps)
  registerReceipts(app, deps)
}

function registerLeases(app: CoreApp, guardian: Pick<Guardian, 'view'>): void {
  const route = createRoute({
    ...about,
    method: 'get',
    path: '/admin/v1/leases',
    summary: 'Which buckets may accept, and why the others may not',
    description: 'As the process that answers sees it. Active campaigns only.',
    request: { query: z.object({ campaign_id: z.string().max(64).optional() }) },
    responses: { 200: json(leasesShape, 'Every bucket that is watched'), ...problems(400, 401, 403) },
  })
  app.openapi(route, (c) => {
    requireRole(c, campaignRoles.read)
    const { campaign_id: wanted } = c.req.valid('query')
    const data = guardian
      .view()
      .filter(({ bucket }) => wanted === undefined || bucket.campaignId === wanted)
      .map(({ bucket, withheld, leaseUntilMs, detail }) => ({
        campaign_id: bucket.campaignId,
        bucket: bucket.bucket,
        lease_until: leaseUntilMs === undefined ? null : new Date(leaseUntilMs).toISOString(),
        withheld:
          withheld === undefined
            ? null
            : {
                reason: withheld,
                means: withheldWords[withheld],
                ...(detail === undefined ? {} : { detail }),
              },
      }))
    return c.json({ data }, 200)
  })
}

function registerRebuild(app: CoreApp, deps: Deps): void {
  const plan = createRoute({
    ...about,
    method: 'get',
    path: '/admin/v1/campaigns/{id}/rebuild',
    summary: 'What a rebuild of its gates would do',
    request: { params: idParam },
    responses: { 200: json(planShape, 'Redis beside the ledger'), ...problems(401, 403, 404, 503) },
  })
  app.openapi(plan, async (c) => {
    requireRole(c, campaignRoles.read)
    return c.json(await planRebuild(deps, campaignIdOf(c.req.valid('param').id, deps)), 200)
  })

  const rebuild = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/campaigns/{id}/rebuild',
    summary: 'Make its gates again from the ledger',
    description:
      'Claims hear NOT_READY meanwhile. `force` opens a bucket also where the ledger’s own numbers don’t add up.',
    request: {
      params: idParam,
      headers: z.object({ 'Idempotency-Key': idempotencyHeader.optional() }),
      body: {
        ...json(z.object({ reason: lineOf(500), force: z.boolean().default(false) }).strict(), 'Why'),
        required: true,
      },
    },
    responses: {
      200: json(rebuiltShape, 'What became of each bucket'),
      ...problems(400, 401, 403, 404, 409, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(rebuild, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const ctx = commandContext(c, deps)
    const input = c.req.valid('json')
    const command = { action: 'campaign.rebuild', target: campaignId, roles: campaignRoles.rebuild }
    await authorise(deps, ctx.caller, command)
    const asked = await execute<Rebuilt>(ctx, {
      ...command,
      input,
      reason: input.reason,
      run: async () => ({ answer: { campaign_id: campaignId, buckets: [] }, after: input }),
    })
    if (asked.replayed && asked.answer.buckets.length > 0) return c.json(asked.answer, 200)
    const { actor, role = 'none' } = ctx.caller
    const buckets = await rebuildCampaign(deps, campaignId, { actor, role, ...input })
    const answer = { campaign_id: campaignId, buckets }
    await replaceAnswer(ctx, command, answer)
    return c.json(answer, 200)
  })
}

function registerReceipts(app: CoreApp, deps: Deps): void {
  const request = { body: { ...json(receiptShape, 'The receipt'), required: true } }
  const mine = createRoute({
    tags: ['Claims'],
    security: [{ edge: [] }, { login: [] }],
    method: 'post',
    path: '/v1/receipts',
    summary: 'Present the receipt of an acceptance that is no longer known',
    description: 'It is honoured while there is stock, and otherwise rejected with a reason.',
    request,
    responses: {
      200: json(claimShape, 'What becomes of the claim'),
      ...problems(400, 401, 404, 409, 413, 415, 503),
    },
  })
  app.openapi(mine, async (c) => {
    const userId = await deps.identity.user(c)
    const view = await honourReceipt(deps, c.req.valid('json').receipt, userId)
    return c.json(view, 200, { 'Cache-Control': 'no-store' })
  })

  const support = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/receipts',
    summary: 'The same, for its user',
    request: { ...request, headers: z.object({ 'Idempotency-Key': idempotencyHeader.optional() }) },
    responses: {
      200: json(claimShape, 'What becomes of the claim'),
      ...problems(400, 401, 403, 404, 409, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(support, async (c) => {
    const ctx = commandContext(c, deps)
    const { receipt } = c.req.valid('json')
    const command = { action: 'receipt.present', target: '', roles: campaignRoles.presentReceipt }
    await authorise(deps, ctx.caller, command)
    // Before the command's own transaction: repeating it gives the same claim.
    const view = await honourReceipt(deps, receipt, undefined)
    const { answer } = await execute(ctx, {
      ...command,
      input: { receipt },
      reason: undefined,
      run: async () => ({ answer: view, target: view.request_id, after: view }),
    })
    return c.json(answer, 200)
  })
}
