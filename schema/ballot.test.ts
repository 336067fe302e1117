import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { type BallotRecord, drawLots, entrantOf, seedHashOf, verifyBallot } from './ballot.ts'

const crypto = {
  sha256: (text: string) => createHash('sha256').update(text).digest('hex'),
  hmac: (key: string, text: string) => createHmac('sha256', key).update(text).digest('hex'),
}
const entrants = Array.from({ length: 200 }, (_, i) => entrantOf(crypto, 'c1', `user-${i}`))
function published(seed: string, quota: number): BallotRecord {
  const winners = drawLots(crypto, seed, entrants)
    .slice(0, quota)
    .map(({ entrant }) => entrant)
  return { campaign_id: 'c1', seed_hash: seedHashOf(crypto, seed), seed, quota, entrants, winners }
}

describe('a ballot', () => {
  it('is drawn the same whatever the order of the list', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray(entrants, { minLength: 200 }), (shuffled) => {
        assert.deepEqual(drawLots(crypto, 'seed', shuffled), drawLots(crypto, 'seed', entrants))
      }),
    )
  })

  it('can be verified by anyone, and no change passes', () => {
    const good = published('seed', 20)
    assert.deepEqual(verifyBallot(crypto, good), [])
    const changed: Partial<BallotRecord>[] = [
      { seed: 'another' },
      { winners: good.winners.slice(1) },
      { winners: [entrants.find((entrant) => !good.winners.includes(entrant))!, ...good.winners.slice(1)] },
      { winners: good.winners.toReversed() },
      { entrants: good.entrants.filter((entrant) => entrant !== good.winners[0]) },
      { entrants: [...good.entrants, good.entrants[0]!] },
      { quota: 21 },
    ]
    for (const change of changed) assert.notDeepEqual(verifyBallot(crypto, { ...good, ...change }), [])
  })

  it('gives everyone the same chance (chi-squared over 2,000 seeds)', () => {
    const people = entrants.slice(0, 20)
    const wins = new Map(people.map((entrant) => [entrant, 0]))
    for (let seed = 0; seed < 2000; seed++) {
      for (const { entrant } of drawLots(crypto, `seed-${seed}`, people).slice(0, 5))
        wins.set(entrant, wins.get(entrant)! + 1)
    }
    const expected = (2000 * 5) / 20
    const chiSquared = [...wins.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
    // 19 degrees of freedom: 43.8 is exceeded once in a thousand; the seeds are fixed, so this never flickers.
    assert.ok(chiSquared < 43.8, String(chiSquared))
  })
})
