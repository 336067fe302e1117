import { z } from '@hono/zod-openapi'
import { and, count, eq, inArray, ne } from 'drizzle-orm'
import { type BucketSnapshot, snapshot } from '../../lua/stock.ts'
import { buckets, campaignStock, compensations, transfers } from '../../schema/db/tables.ts'
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

const nullWhenUnread = 'null when a gate could not be read.'

export const inventoryShape = z
  .object({
    campaign_id: z.string(),
    quota: z.int(),
    remaining: z
      .int()
      .nullable()
      .openapi({ description: `Of all gates; ${nullWhenUnread}` }),
    in_transit: z
      .int()
      .nullable()
      .openapi({ description: 'Taken out at one end of a transfer and not put in at the other.' }),
    unallocated: z.int().openapi({ description: 'In no bucket.' }),
    accepted_unsettled: z
      .int()
      .nullable()
      .openapi({ description: 'Accepted, and not settled in the gate yet.' }),
    issued: z.int().openapi({ description: 'Coupons.' }),
    rejected_awaiting_return: z
      .int()
      .openapi({ description: 'Rejected; their stock is still to be returned.' }),
    withdrawn: z.int().openapi({ description: 'Taken out of the campaign by operators.' }),
    sum: z
      .int()
      .nullable()
      .openapi({
        description: `Of all the terms above; the quota, once nothing is under way. ${nullWhenUnread}`,
      }),
    accepted: z.int().nullable(),
    returned: z.int().nullable(),
    buckets: z.array(
      z.object({
        bucket: z.int(),
        allocated: z.int(),
        primed_at: z.string().nullable(),
        leaving: z.int().openapi({ description: 'Taken out of it, and in transit.' }),
        arriving: z.int().openapi({ description: 'In transit to it.' }),
        gate: gateShape
          .nullable()
          .openapi({ description: 'null: there is no gate, or it could not be read.' }),
      }),
    ),
    transfers: z
      .array(
        z.object({
          id: z.string(),
          from: z.int().nullable().openapi({ description: 'A bucket; null: the unallocated stock.' }),
          to: z.int().nullable(),
          requested: z.int(),
          amount: z.int().nullable().openapi({ description: 'What was taken; null: nothing yet.' }),
          state: z.enum(['PLANNED', 'WITHDRAWN']),
          reason: z.string(),
        }),
      )
      .openapi({ description: 'Those under way.' }),
    at: z.string(),
  })
  .openapi('Inventory')
export type Inventory = z.infer<typeof inventoryShape>

/** @throws Refused CAMPAIGN_NOT_FOUND */
export async function readInventory(deps: Deps, campaignId: string): Promise<Inventory> {
  const { campaign } = await readCampaign(deps.db.admin.orm, campaignId)
  const ledger = await readLedger(deps, campaignId)
  const { stock, slices, open } = ledger
  const gates = await Promise.all(slices.map(({ bucket }) => readGate(deps, campaignId, bucket)))
  const total = (of: (gate: BucketSnapshot) => number) =>
    gates.every((gate) => gate !== undefined) ? gates.reduce((sum, gate) => sum + of(gate), 0) : null
  const moving = (end: 'fromBucket' | 'toBucket', bucket: number) =>
    open.reduce((sum, transfer) => (transfer[end] === bucket ? sum + (transfer.amount ?? 0) : sum), 0)
  const terms = {
    remaining: total((gate) => gate.remaining),
    in_transit: inTransit(ledger, gates),
    unallocated: stock?.unallocated ?? 0,
    accepted_unsettled: total((gate) => gate.accepted - gate.settled),
    issued: stock?.issued ?? 0,
    rejected_awaiting_return: ledger.owed,
    withdrawn: stock?.withdrawn ?? 0,
  }
  const values = Object.values(terms)
  return {
    campaign_id: campaignId,
    quota: stock?.quota ?? campaign.quota,
    ...terms,
    sum: values.every((term) => term !== null) ? values.reduce((sum, term) => sum + term, 0) : null,
    accepted: total((gate) => gate.accepted),
    returned: total((gate) => gate.returned),
    buckets: slices.map(({ bucket, allocated, primedAt }, i) => ({
      bucket,
      allocated,
      primed_at: primedAt?.toISOString() ?? null,
      leaving: moving('fromBucket', bucket),
      arriving: moving('toBucket', bucket),
      gate: gates[i] === undefined ? null : gateAnswer(gates[i]),
    })),
    transfers: open.map((transfer) => ({
      id: transfer.transferId,
      from: transfer.fromBucket,
      to: transfer.toBucket,
      requested: transfer.requested,
      amount: transfer.amount,
      state: transfer.state === 'PLANNED' ? 'PLANNED' : 'WITHDRAWN',
      reason: transfer.reason,
    })),
    at: new Date(deps.clock()).toISOString(),
  }
}

type Ledger = Awaited<ReturnType<typeof readLedger>>

/** The ledger's side at one instant. */
async function readLedger({ db }: Deps, campaignId: string) {
  return db.admin.orm.transaction(
    async (tx) => {
      const [stock] = await tx.select().from(campaignStock).where(eq(campaignStock.campaignId, campaignId))
      const slices = await tx
        .select()
        .from(buckets)
        .where(eq(buckets.campaignId, campaignId))
        .orderBy(buckets.bucket)
      const open = await tx
        .select()
        .from(transfers)
        .where(and(eq(transfers.campaignId, campaignId), ne(transfers.state, 'DEPOSITED')))
        .orderBy(transfers.transferId)
      const [debts] = await tx
        .select({ owed: count() })
        .from(compensations)
        .where(
          and(
            eq(compensations.campaignId, campaignId),
            inArray(compensations.state, ['PENDING', 'UNKNOWN', 'REVIEW']),
          ),
        )
      return { stock, slices, open, owed: debts?.owed ?? 0 }
    },
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  )
}

/**
 * What transfers hold by the ledger, less what their ends' gates have taken or given that the ledger does not know
 * of yet. Only of buckets with a transfer under way: any other difference must show in the sum.
 */
function inTransit({ slices, open }: Ledger, gates: readonly (BucketSnapshot | undefined)[]): number | null {
  const touched = new Set(open.flatMap(({ fromBucket, toBucket }) => [fromBucket, toBucket]))
  let sum = open.reduce((all, { amount }) => all + (amount ?? 0), 0)
  for (const [i, { bucket, allocated }] of slices.entries()) {
    if (!touched.has(bucket)) continue
    const gate = gates[i]
    if (gate === undefined) return null
    sum -= gate.allocated - allocated
  }
  return sum
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
