/**
 * The draw of a ballot (CL19, A4 §16.3): anyone who has the published list and seed comes to the same winners.
 *
 * Before the window opens, the hash of the seed is published, so that the seed can't be chosen after the entries are
 * known. After the window, seed and list of entrants are published. An entrant is the hash of campaign and user:
 * users find themselves in the list, others don't learn who they are. A lot is the HMAC of the entrant under the
 * seed; the lowest lots win. Equal lots (which SHA-256 doesn't give) go by entrant.
 */

/** What the draw needs of the platform: SHA-256 and HMAC-SHA-256, lower-case hex. */
export interface DrawCrypto {
  sha256(text: string): string
  hmac(key: string, text: string): string
}

export function seedHashOf(crypto: DrawCrypto, seed: string): string {
  return crypto.sha256(`tidegate-ballot-seed:${seed}`)
}

export function entrantOf(crypto: DrawCrypto, campaignId: string, userId: string): string {
  return crypto.sha256(`tidegate-ballot-entrant:${campaignId}:${userId}`)
}

export interface Lot {
  entrant: string
  lot: string
}

/** All entrants in the order of the draw; the first `quota` have won. */
export function drawLots(crypto: DrawCrypto, seed: string, entrants: readonly string[]): Lot[] {
  return entrants.map((entrant) => ({ entrant, lot: crypto.hmac(seed, entrant) })).sort(compareLots)
}

/** The order of the draw. */
export function compareLots(a: Lot, b: Lot): number {
  if (a.lot !== b.lot) return a.lot < b.lot ? -1 : 1
  if (a.entrant === b.entrant) return 0
  return a.entrant < b.entrant ? -1 : 1
}

/** What is published after a draw. */
export interface BallotRecord {
  campaign_id: string
  seed_hash: string
  seed: string
  quota: number
  /** Every entrant, in ASCII order. */
  entrants: string[]
  /** The winners, in the order of the draw. */
  winners: string[]
}

/** What is wrong with a published draw; empty when it is as it must be. */
export function verifyBallot(crypto: DrawCrypto, record: BallotRecord): string[] {
  const faults: string[] = []
  if (seedHashOf(crypto, record.seed) !== record.seed_hash)
    faults.push('the seed is not the one whose hash was published')
  if (new Set(record.entrants).size !== record.entrants.length)
    faults.push('an entrant stands twice in the list')
  const expected = drawLots(crypto, record.seed, record.entrants)
    .slice(0, record.quota)
    .map(({ entrant }) => entrant)
  if (expected.length !== record.winners.length) {
    faults.push(`there are ${record.winners.length} winners, the draw gives ${expected.length}`)
  }
  const wrong = expected.filter((entrant, i) => record.winners[i] !== entrant).length
  if (wrong > 0) faults.push(`${wrong} winners are not those of the draw`)
  return faults
}
