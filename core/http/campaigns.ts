import { createRoute, z } from '@hono/zod-openapi'
import { approveCampaign } from '../campaigns/approve.ts'
import { createCampaign } from '../campaigns/create.ts'
import { endCampaign } from '../campaigns/end.ts'
import { inventoryShape, readInventory } from '../campaigns/inventory.ts'
import { pauseCampaign } from '../campaigns/pause.ts'
import { type CampaignVerb, campaignRoles } from '../campaigns/permissions.ts'
import { publishCampaign } from '../campaigns/publish.ts'
import { answerOf, listCampaigns, readCampaign } from '../campaigns/read.ts'
import { rejectCampaign } from '../campaigns/reject.ts'
import { resumeCampaign } from '../campaigns/resume.ts'
import { type CampaignAnswer, campaignShape, commandShape, newCampaignShape } from '../campaigns/shapes.ts'
import { submitCampaign } from '../campaigns/submit.ts'
import type { TransitionInput } from '../campaigns/transition.ts'
import { voidCampaign } from '../campaigns/void.ts'
import type { CommandContext, Done } from '../command.ts'
import type { Deps } from '../deps.ts'
import { campaignIdOf, commandContext, expectedVersion, requireRole } from './admin.ts'
import { about, answerHeaders, commandHeaders, etagOf, idParam, permit } from './campaignCommands.ts'
import { decodeCursor, encodeCursor, pageOf, pageQuery, pageShape } from './pages.ts'
import { idempotencyHeader, json, problems } from './shapes.ts'
import type { CoreApp } from './types.ts'

const verbs: Record<
  CampaignVerb,
  { run(ctx: CommandContext, input: TransitionInput): Promise<Done<CampaignAnswer>>; summary: string }
> = {
  submit: { run: submitCampaign, summary: 'Hand in for review: DRAFT → IN_REVIEW' },
  approve: {
    run: approveCampaign,
    summary: 'Approve, as somebody else than its maker: IN_REVIEW → APPROVED',
  },
  reject: { run: rejectCampaign, summary: 'Send back to its maker: IN_REVIEW → DRAFT' },
  publish: { run: publishCampaign, summary: 'Give it its stock and open its gates: APPROVED → ACTIVE' },
  pause: { run: pauseCampaign, summary: 'Stop it for a while: ACTIVE → PAUSED' },
  resume: { run: resumeCampaign, summary: 'Let it go on: PAUSED → ACTIVE' },
  end: { run: endCampaign, summary: 'End it before its time: ACTIVE or PAUSED → ENDED' },
  void: { run: voidCampaign, summary: 'Cancel it, from any state but ENDED: → VOIDED' },
}

export function registerCampaignRoutes(app: CoreApp, deps: Deps, onOpened: () => void): void {
  registerReads(app, deps)
  registerCreate(app, deps)
  for (const verb of Object.keys(verbs) as CampaignVerb[]) registerVerb(app, deps, verb, onOpened)
}

function registerReads(app: CoreApp, deps: Deps): void {
  const { orm } = deps.db.admin
  const list = createRoute({
    ...about,
    method: 'get',
    path: '/admin/v1/campaigns',
    summary: 'All campaigns, newest first',
    request: { query: z.object(pageQuery) },
    responses: { 200: json(pageShape(campaignShape), 'A page of campaigns'), ...problems(400, 401, 403) },
  })
  app.openapi(list, async (c) => {
    requireRole(c, campaignRoles.read)
    const { limit, cursor } = c.req.valid('query')
    const from = cursor === undefined ? undefined : decodeCursor(cursor)
    const after = from && { createdAt: from.at, campaignId: from.id }
    const rows = await listCampaigns(orm, { limit: limit + 1, after })
    const cursorOf = ({ campaign }: (typeof rows)[number]) =>
      encodeCursor(campaign.createdAt, campaign.campaignId)
    return c.json(pageOf(rows, limit, answerOf, cursorOf), 200)
  })

  const show = createRoute({
    ...about,
    method: 'get',
    path: '/admin/v1/campaigns/{id}',
    summary: 'One campaign, with the ETag that commands on it need',
    request: { params: idParam },
    responses: { 200: json(campaignShape, 'The campaign'), ...problems(401, 403, 404) },
  })
  app.openapi(show, async (c) => {
    requireRole(c, campaignRoles.read)
    const answer = answerOf(await readCampaign(orm, campaignIdOf(c.req.valid('param').id, deps)))
    return c.json(answer, 200, { ETag: etagOf(answer) })
  })

  const inventory = createRoute({
    ...about,
    method: 'get',
    path: '/admin/v1/campaigns/{id}/inventory',
    summary: 'Where its stock is',
    request: { params: idParam },
    responses: { 200: json(inventoryShape, 'Stock by ledger and gates'), ...problems(401, 403, 404) },
  })
  app.openapi(inventory, async (c) => {
    requireRole(c, campaignRoles.read)
    return c.json(await readInventory(deps, campaignIdOf(c.req.valid('param').id, deps)), 200)
  })
}

function registerCreate(app: CoreApp, deps: Deps): void {
  const create = createRoute({
    ...about,
    method: 'post',
    path: '/admin/v1/campaigns',
    summary: 'Make a draft',
    middleware: [permit(deps, 'create')],
    request: {
      headers: z.object({ 'Idempotency-Key': idempotencyHeader.optional() }),
      body: { ...json(newCampaignShape, 'The campaign'), required: true },
    },
    responses: {
      201: json(campaignShape, 'The draft'),
      ...problems(400, 401, 403, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(create, async (c) => {
    const ctx = commandContext(c, deps)
    const { answer, replayed } = await createCampaign(ctx, c.req.valid('json'))
    return c.json(answer, 201, {
      ...answerHeaders(answer, replayed),
      Location: `/admin/v1/campaigns/${answer.id}`,
    })
  })
}

function registerVerb(app: CoreApp, deps: Deps, verb: CampaignVerb, onOpened: () => void): void {
  const { run, summary } = verbs[verb]
  const route = createRoute({
    ...about,
    method: 'post',
    path: `/admin/v1/campaigns/{id}/${verb}`,
    summary,
    middleware: [permit(deps, verb)],
    request: {
      params: idParam,
      headers: commandHeaders,
      body: json(commandShape, 'Why'),
    },
    responses: {
      200: json(campaignShape, 'The campaign in its new state'),
      ...problems(400, 401, 403, 404, 409, 412, 413, 415, 422, 428, 503),
    },
  })
  app.openapi(route, async (c) => {
    const campaignId = campaignIdOf(c.req.valid('param').id, deps)
    const ctx = commandContext(c, deps)
    const { reason } = c.req.valid('json')
    const { answer, replayed } = await run(ctx, { campaignId, expectedVersion: expectedVersion(c), reason })
    if (answer.state === 'ACTIVE') onOpened()
    return c.json(answer, 200, answerHeaders(answer, replayed))
  })
}
