import { count, notInArray } from 'drizzle-orm'
import { campaigns } from '../../schema/db/tables.ts'
import type { Tx } from '../command.ts'
import { Refused } from '../refusal.ts'
import type { Stores } from '../stores/stores.ts'

/**
 * The store for a new campaign, for all its life: the operator's wish, or the one with the fewest campaigns that are
 * not over (the first of the configuration among equals).
 * @throws Refused INVALID_REQUEST when no such store is configured.
 */
export async function chooseStore(tx: Tx, stores: Stores, wish: string | undefined): Promise<string> {
  const names = stores.all.map(({ name }) => name)
  if (wish !== undefined) {
    if (!stores.has(wish))
      throw new Refused('INVALID_REQUEST', {
        detail: `There is no store of that name: give one of ${names.join(', ')}.`,
      })
    return wish
  }
  if (names.length === 1) return names[0]!
  const rows = await tx
    .select({ store: campaigns.store, campaigns: count() })
    .from(campaigns)
    .where(notInArray(campaigns.state, ['ENDED', 'VOIDED']))
    .groupBy(campaigns.store)
  const counts = new Map(rows.map((row) => [row.store, row.campaigns]))
  return names.reduce((least, name) => ((counts.get(name) ?? 0) < (counts.get(least) ?? 0) ? name : least))
}
