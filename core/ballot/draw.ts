import { setImmediate as breathe } from 'node:timers/promises'
import { eq, sql } from 'drizzle-orm'
import { compareLots, drawLots, entrantOf, type Lot } from '../../schema/ballot.ts'
import { ballots, type Campaign } from '../../schema/db/tables.ts'
import { ballotMachine } from '../../schema/states.ts'
import { arrayOf } from '../claim/issue.sql.ts'
import type { Tx } from '../command.ts'
import type { Deps } from '../deps.ts'
import { Refused } from '../refusal.ts'
import { readGates } from '../stock/readGates.ts'
import { drawCrypto } from './crypto.ts'

/**
 * The draw of a ballot (CL19): every entry gets its lot, in one transaction, once. What follows from the lots is
 * carried out afterwards (settle.ts), as often as it takes.
 */

export type DrawDeps = Pick<Deps, 'db' | 'runner' | 'clock' | 'log'>

/** Entries written, and lots computed, between two looks at everything else that this process does. */
const chunk = 5_000

interface Entry {
  user_id: string
  request_id: string
  bucket: number
  rule_version: number
}

/**
 * Why it can't be drawn yet, in words; undefined: every entry stands in the ledger, and none can come any more.
 * Only the gates' own clock says whether the window is over, and only their logs whether all was drained.
 */
export async function whyNotRipe(deps: DrawDeps, campaign: Campaign): Promise<string | undefined> {
  const { campaignId, bucketCount, endsAt } = campaign
  const gates = await readGates(deps.runner, campaignId, bucketCount)
  for (const gate of gates) {
    if (gate === undefined) return 'A bucket’s state is lost: wait for its rebuild.'
    const over = gate.nowMs >= endsAt.getTime() || gate.state === 'ENDED' || gate.state === 'VOIDED'
    if (!over) return 'Its window is not over.'
    if (gate.entries > 0) return 'Entries are still being recorded: try again in a moment.'
  }
  const [dead] = await deps.db.admin.sql<{ n: number }[]>`
    SELECT count(*) AS n FROM dead_letters WHERE campaign_id = ${campaignId} AND state = 'OPEN'`
  if (dead!.n > 0) return `${dead!.n} entries are in the dead letters: replay or discard them first.`
  return undefined
}

/** @returns the number of entrants. @throws Refused CONFLICT when it was drawn already, or there is no ballot. */
export async function draw(tx: Tx, campaignId: string, now: Date): Promise<number> {
  const [ballot] = await tx.select().from(ballots).where(eq(ballots.campaignId, campaignId)).for('update')
  if (ballot === undefined) throw new Refused('CONFLICT', { detail: 'This campaign is no ballot.' })
  if (ballot.state !== 'OPEN') throw new Refused('CONFLICT', { detail: `The ballot is ${ballot.state}.` })
  const [stock] = (await tx.execute(sql`
    SELECT unallocated FROM campaign_stock WHERE campaign_id = ${campaignId}`)) as unknown as {
    unallocated: number
  }[]
  const quota = Number(stock!.unallocated)
  const entries = await readEntries(tx, campaignId)
  const lots = await computeLots(ballot.seed, [...entries.keys()])
  for (let from = 0; from < lots.length; from += chunk) {
    const part = lots.slice(from, from + chunk).map(({ entrant }, i) => ({
      entrant,
      rank: from + i + 1,
      ...entries.get(entrant)!,
    }))
    await tx.execute(sql`
      INSERT INTO ballot_lots (user_id, campaign_id, request_id, bucket, rule_version, entrant, rank, won, state)
      SELECT user_id, ${campaignId}, request_id, bucket, rule_version, entrant, rank, rank <= ${quota}::bigint, 'DRAWN'
      FROM unnest(
        ${arrayOf(part.map((lot) => lot.user_id))}::text[],
        ${arrayOf(part.map((lot) => lot.request_id))}::uuid[],
        ${arrayOf(part.map((lot) => lot.bucket))}::integer[],
        ${arrayOf(part.map((lot) => Number(lot.rule_version)))}::bigint[],
        ${arrayOf(part.map((lot) => lot.entrant))}::text[],
        ${arrayOf(part.map((lot) => lot.rank))}::bigint[]
      ) AS i(user_id, request_id, bucket, rule_version, entrant, rank)`)
  }
  await tx
    .update(ballots)
    .set({
      state: ballotMachine.move(ballot.state, 'DRAWN'),
      quota,
      entrants: lots.length,
      drawnAt: now,
      version: ballot.version + 1,
    })
    .where(eq(ballots.campaignId, campaignId))
  return lots.length
}

/** By entrant: a user's first entry. A second one can only exist after a loss of Redis, and gets no lot. */
async function readEntries(tx: Tx, campaignId: string): Promise<Map<string, Entry>> {
  const rows = (await tx.execute(sql`
    SELECT user_id, request_id, bucket, rule_version FROM claims
    WHERE campaign_id = ${campaignId} AND status = 'PROCESSING' ORDER BY request_id`)) as unknown as Entry[]
  const entries = new Map<string, Entry>()
  for (const row of rows) {
    const entrant = entrantOf(drawCrypto, campaignId, row.user_id)
    if (!entries.has(entrant)) entries.set(entrant, row)
  }
  return entries
}

/** As `drawLots` of all at once, with pauses: leases are renewed by this process too. */
async function computeLots(seed: string, entrants: readonly string[]): Promise<Lot[]> {
  const lots: Lot[] = []
  for (let from = 0; from < entrants.length; from += chunk) {
    lots.push(...drawLots(drawCrypto, seed, entrants.slice(from, from + chunk)))
    await breathe()
  }
  return lots.sort(compareLots)
}
