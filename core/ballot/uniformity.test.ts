import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type BallotRecord, drawLots, entrantOf, seedHashOf } from '../../schema/ballot.ts'
import { verifyRecord } from '../ops/ballot.ts'
import { drawCrypto } from './crypto.ts'

/** The middle of a χ² distribution with k degrees of freedom lies near k, its deviation is √(2k). */
const sixDeviations = (k: number) => k + 6 * Math.sqrt(2 * k)

test('every entrant wins as often as any other, over many seeds (χ², six deviations)', () => {
  const entrants = Array.from({ length: 40 }, (_, i) => entrantOf(drawCrypto, 'c', `user-${i}`))
  const draws = 2_000
  const winnersEach = 10
  const wins = new Map(entrants.map((entrant) => [entrant, 0]))
  for (let draw = 0; draw < draws; draw++)
    for (const { entrant } of drawLots(drawCrypto, `seed-${draw}`, entrants).slice(0, winnersEach))
      wins.set(entrant, wins.get(entrant)! + 1)
  const expected = (draws * winnersEach) / entrants.length
  const variance = expected * (1 - winnersEach / entrants.length)
  // Each count is binomial; their sum is fixed, which takes one degree of freedom.
  const chi2 = [...wins.values()].reduce((sum, count) => sum + (count - expected) ** 2 / variance, 0)
  assert.ok(chi2 < sixDeviations(entrants.length), `χ² ${chi2}`)
})

test('who enters first, or with which name, says nothing of the rank', () => {
  const entrants = Array.from({ length: 20_000 }, (_, i) => entrantOf(drawCrypto, 'c', `user-${i}`))
  const ranks = new Map(drawLots(drawCrypto, 'a seed', entrants).map(({ entrant }, rank) => [entrant, rank]))
  const cells = new Array<number>(100).fill(0)
  // Ten classes of entry order by ten of rank.
  entrants.forEach((entrant, i) => {
    cells[Math.floor(i / 2_000) * 10 + Math.floor(ranks.get(entrant)! / 2_000)]! += 1
  })
  const chi2 = cells.reduce((sum, count) => sum + (count - 200) ** 2 / 200, 0)
  assert.ok(chi2 < sixDeviations(81), `χ² ${chi2}`)
})

test('verification finds a changed seed, list, winner or number of winners', () => {
  const entrants = Array.from({ length: 30 }, (_, i) => entrantOf(drawCrypto, 'c', `user-${i}`)).sort()
  const winners = drawLots(drawCrypto, 'seed', entrants)
    .slice(0, 7)
    .map(({ entrant }) => entrant)
  const seed_hash = seedHashOf(drawCrypto, 'seed')
  const record: BallotRecord = { campaign_id: 'c', seed: 'seed', seed_hash, quota: 7, entrants, winners }
  assert.deepEqual(verifyRecord(record), { entrants: 30, winners: 7 })
  for (const change of [
    { seed: 'another' },
    { entrants: [...entrants, entrants[0]!] },
    { entrants: entrants.filter((entrant) => entrant !== winners[0]) },
    { winners: [...winners].reverse() },
    { winners: winners.slice(1) },
    { quota: 8 },
  ])
    assert.throws(() => verifyRecord({ ...record, ...change }), /The draw does not hold/)
  assert.throws(() => verifyRecord({ state: 'OPEN', seed_hash }), /no draw to verify/)
  assert.throws(() => verifyRecord({ seed: 1 }), /no record of a draw/)
})
