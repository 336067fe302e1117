import type { Sql } from 'postgres'
import type { Tx } from '../claim/issue.sql.ts'

/** Where a campaign's quota is by the ledger alone. It adds up at every commit, whatever Redis says. */
export interface Balance {
  quota: number
  issued: number
  unallocated: number
  withdrawn: number
  allocated: number
  inTransit: number
}

/** Undefined: there is no such campaign, or it has no stock yet. */
export async function readBalance(
  sql: Tx | Sql<{ bigint: number }>,
  campaignId: string,
): Promise<Balance | undefined> {
  const [row] = await sql<Balance[]>`
    SELECT s.quota, s.issued, s.unallocated, s.withdrawn,
      coalesce((SELECT sum(allocated) FROM buckets WHERE campaign_id = s.campaign_id), 0)::bigint AS allocated,
      coalesce((SELECT sum(amount) FROM transfers
        WHERE campaign_id = s.campaign_id AND state = 'WITHDRAWN'), 0)::bigint AS "inTransit"
    FROM campaign_stock s WHERE s.campaign_id = ${campaignId}`
  return row
}

/** quota = withdrawn + unallocated + all buckets' + in transit. A ballot allocates nothing before its draw. */
export function missingOf({ quota, unallocated, withdrawn, allocated, inTransit }: Balance): number {
  return quota - withdrawn - unallocated - allocated - inTransit
}
