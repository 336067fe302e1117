import { z } from '@hono/zod-openapi'
import { eq } from 'drizzle-orm'
import { type BucketSnapshot, snapshot } from '../../lua/stock.ts'
import { buckets, campaignStock } from '../../schema/db/tables.ts'
import type { Deps } from '../deps.ts'
import { readCampaign } from './read.ts'

/** Where a campaign's stock is, by the ledger and by the gates, at about one instant. */

const gateShape = z
  .object({
    state: z.enum(['ACTIVE', 'PAUSED', 'ENDED', 'VOIDED']),
    epoch: z.int(),
    config_version: z.int(),
    remaining: z.int(),
    accepted: z.int(),
    settled: z.int(),
    returned: z.int(),
    unread_entries: z.int().openapi({ description: 'Log entries that the core has not settled.' }),
    lease_until: z
      .string()
      .nullable()
      .openapi({ description: 'It accepts until then; null: it has no lease.' }),
  })
  .openapi('Gate')

export const inventoryShape = z
  .object({
    campaign_id: z.string(),
    quota: z.int(),
    issued: z.int(),
    unallocated: z.int(),
    withdrawn: z.int(),
    remaining: z.int().nullable().openapi({ description: 'Of all gates; null when one could not be read.' }),
    accepted: z.int().nullable(),
    returned: z.int().nullable(),
    buckets: z.array(
      z.object({
        bucket: z.int(),
        allocated: z.int(),
        primed_at: z.string().nullable(),
        gate: gateShape
          .nullable()
          .openapi({ description: 'null: there is no gate, or it could not be read.' }),
      }),
    ),
    at: z.string(),
  })
  .openapi('Inventory')
export type Inventory = z.infer<typeof inventoryShape>

/** @throws Refused CAMPAIGN_NOT_FOUND */
export async function readInventory(deps: Deps, campaignId: string): Promise<Inventory> {
  const { orm } = deps.db.admin
  const { campaign } = await readCampaign(orm, campaignId)
  const [stock] = await orm.select().from(campaignStock).where(eq(campaignStock.campaignId, campaignId))
  const slices = await orm
    .select()
    .from(buckets)
    .where(eq(buckets.campaignId, campaignId))
    .orderBy(buckets.bucket)
  const gates = await Promise.all(slices.map(({ bucket }) => readGate(deps, campaignId, bucket)))
  const total = (of: (gate: BucketSnapshot) => number) =>
    gates.every((gate) => gate !== undefined) ? gates.reduce((sum, gate) => sum + of(gate), 0) : null
  return {
    campaign_id: campaignId,
    quota: stock?.quota ?? campaign.quota,
    issued: stock?.issued ?? 0,
    unallocated: stock?.unallocated ?? 0,
    withdrawn: stock?.withdrawn ?? 0,
    remaining: total((gate) => gate.remaining),
    accepted: total((gate) => gate.accepted),
    returned: total((gate) => gate.returned),
    buckets: slices.map(({ bucket, allocated, primedAt }, i) => ({
      bucket,
      allocated,
      primed_at: primedAt?.toISOString() ?? null,
      gate: gates[i] === undefined ? null : gateAnswer(gates[i]),
    })),
    at: new Date(deps.clock()).toISOString(),
  }
}

async function readGate({ runner, log }: Deps, campaignId: string, bucket: number) {
  try {
    return await snapshot(runner, { campaignId, bucket })
  } catch (error) {
    log.warn({ err: error, campaign_id: campaignId, bucket }, 'a gate could not be read')
    return undefined
  }
}

function gateAnswer(gate: BucketSnapshot): z.infer<typeof gateShape> {
  return {
    state: gate.state,
    epoch: gate.epoch,
    config_version: gate.configVersion,
    remaining: gate.remaining,
    accepted: gate.accepted,
    settled: gate.settled,
    returned: gate.returned,
    unread_entries: gate.entries,
    lease_until: gate.leaseUntilMs > gate.nowMs ? new Date(gate.leaseUntilMs).toISOString() : null,
  }
}
