import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { classify, type Standing } from './classify.ts'

const nobody: Pick<Standing, 'known' | 'taken' | 'cancelled'> = {
  known: new Map(),
  taken: new Map(),
  cancelled: false,
}
const claim = (userId: string, requestId: string) => ({ userId, requestId })

test('a user gets the free sequences up to the limit, also between taken ones, and then is a duplicate', () => {
  const rulings = classify([claim('u', '1'), claim('u', '2'), claim('u', '3')], 'c', {
    ...nobody,
    capacity: 10,
    perUserLimit: 3,
    taken: new Map([['u', [2]]]),
  })
  assert.deepEqual(rulings, [
    { kind: 'issue', claimSeq: 1 },
    { kind: 'issue', claimSeq: 3 },
    { kind: 'reject', reason: 'REJECTED_DUPLICATE' },
  ])
})

test('a duplicate is told so also when the quota is full, and takes none of it', () => {
  const standing = { ...nobody, capacity: 1, perUserLimit: 1 }
  const rulings = classify([claim('a', '1'), claim('a', '2'), claim('b', '3')], 'c', standing)
  assert.deepEqual(
    rulings.map((ruling) => (ruling.kind === 'reject' ? ruling.reason : ruling.kind)),
    ['issue', 'REJECTED_DUPLICATE', 'REJECTED_QUOTA'],
  )
})

test('a known request keeps its outcome, whatever else would hold now', () => {
  const known: Standing['known'] = new Map([
    ['1', { status: 'DELIVERED', campaignId: 'c' }],
    ['2', { status: 'REJECTED', campaignId: 'other' }],
  ])
  const rulings = classify([claim('a', '1'), claim('a', '2')], 'c', {
    ...nobody,
    known,
    capacity: 0,
    perUserLimit: 1,
    cancelled: true,
  })
  assert.deepEqual(rulings, [{ kind: 'known', status: 'DELIVERED' }, { kind: 'undecidable' }])
})

test('a claim for review is held also where others are refused, and takes nothing of what they may have', () => {
  const held = { ...claim('a', '1'), state: 'V' as const }
  const standing = { ...nobody, capacity: 1, perUserLimit: 1 }
  assert.deepEqual(classify([held, claim('a', '2')], 'c', standing), [
    { kind: 'hold' },
    { kind: 'issue', claimSeq: 1 },
  ])
  assert.deepEqual(classify([held], 'c', { ...standing, capacity: 0 }), [{ kind: 'hold' }])
  const known: Standing['known'] = new Map([['1', { status: 'DELIVERED', campaignId: 'c' }]])
  assert.deepEqual(classify([held], 'c', { ...standing, known }), [{ kind: 'known', status: 'DELIVERED' }])
})

test('of any claims, capacity and limits: never more than the quota or a limit, and no sequence twice', () => {
  const users = fc.constantFrom('a', 'b', 'c')
  fc.assert(
    fc.property(
      fc.array(users, { maxLength: 30 }),
      fc.nat(12),
      fc.integer({ min: 1, max: 4 }),
      fc.dictionary(users, fc.uniqueArray(fc.integer({ min: 1, max: 4 }))),
      (claimants, capacity, perUserLimit, taken) => {
        const claims = claimants.map((userId, i) => claim(userId, String(i)))
        const standing = { ...nobody, capacity, perUserLimit, taken: new Map(Object.entries(taken)) }
        const rulings = classify(claims, 'c', standing)
        const held = new Map(Object.entries(taken).map(([user, seqs]) => [user, new Set(seqs)]))
        let issued = 0
        rulings.forEach((ruling, i) => {
          const mine = held.get(claimants[i]!) ?? new Set<number>()
          held.set(claimants[i]!, mine)
          if (ruling.kind === 'issue') {
            issued += 1
            assert.ok(!mine.has(ruling.claimSeq) && ruling.claimSeq >= 1 && ruling.claimSeq <= perUserLimit)
            mine.add(ruling.claimSeq)
            return
          }
          // A refusal is right only when there really was nothing left for this claim.
          assert.equal(ruling.kind, 'reject')
          const reason = ruling.kind === 'reject' ? ruling.reason : ''
          const full = Array.from({ length: perUserLimit }, (_, s) => s + 1).every((s) => mine.has(s))
          assert.equal(reason, full ? 'REJECTED_DUPLICATE' : 'REJECTED_QUOTA')
          if (!full) assert.equal(issued, capacity)
        })
        assert.ok(issued <= capacity)
      },
    ),
    { numRuns: 500 },
  )
})
