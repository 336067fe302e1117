import { eq } from 'drizzle-orm'
import type { BallotRecord } from '../../schema/ballot.ts'
import { ballots } from '../../schema/db/tables.ts'
import type { Pool } from '../db.ts'

/** What anyone may know of a ballot: before the draw the seed's hash, after it all that the draw is made of. */
export type PublicBallot =
  | { campaign_id: string; state: 'OPEN' | 'CANCELLED'; seed_hash: string }
  | (BallotRecord & { state: 'DRAWN' | 'SETTLED'; drawn_at: string })

/** Undefined: the campaign has none. */
export async function readBallot({ orm, sql }: Pool, campaignId: string): Promise<PublicBallot | undefined> {
  const [ballot] = await orm.select().from(ballots).where(eq(ballots.campaignId, campaignId))
  if (ballot === undefined) return undefined
  const { state, seedHash: seed_hash } = ballot
  if (state === 'OPEN' || state === 'CANCELLED') return { campaign_id: campaignId, state, seed_hash }
  const lots = await sql<{ entrant: string; won: boolean }[]>`
    SELECT entrant, won FROM ballot_lots WHERE campaign_id = ${campaignId} ORDER BY rank`
  return {
    campaign_id: campaignId,
    state,
    seed_hash,
    seed: ballot.seed,
    quota: ballot.quota!,
    drawn_at: ballot.drawnAt!.toISOString(),
    // In an order that says nothing of when they came.
    entrants: lots.map(({ entrant }) => entrant).sort(),
    winners: lots.filter(({ won }) => won).map(({ entrant }) => entrant),
  }
}

/** What the campaign's view shows of it. */
export async function ballotHint(
  { orm }: Pool,
  campaignId: string,
): Promise<{ seed_hash: string; entrants_count?: number } | undefined> {
  const [ballot] = await orm.select().from(ballots).where(eq(ballots.campaignId, campaignId))
  if (ballot === undefined) return undefined
  const count = ballot.entrants === null ? {} : { entrants_count: ballot.entrants }
  return { seed_hash: ballot.seedHash, ...count }
}
