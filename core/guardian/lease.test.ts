import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../schema/limits.ts'
import { isSameLife } from './incarnation.ts'
import { type Condition, reasonToWithhold } from './lease.ts'
import { findFinal, type Watched } from './watchList.ts'

const well: Condition = {
  evictionPolicy: 'noeviction',
  clockAheadMs: -limits.clockLeewayMs,
  finding: true,
  livedBefore: true,
  entries: limits.drainLagEntriesMax,
  oldestMs: limits.oldestUnsettledMaxMs,
}

test('a lease is given while all is within its limits, and withheld for the worst that is not', () => {
  assert.equal(reasonToWithhold(well), undefined)
  assert.equal(reasonToWithhold({ ...well, evictionPolicy: undefined }), undefined)
  const worst: [Partial<Condition>, string][] = [
    [{ evictionPolicy: 'allkeys-lru', finding: undefined }, 'redis_evicts'],
    [{ clockAheadMs: limits.clockLeewayMs + 1, finding: undefined }, 'clocks_apart'],
    [{ clockAheadMs: -limits.clockLeewayMs - 1 }, 'clocks_apart'],
    [{ finding: undefined, entries: undefined }, 'redis_incarnation_changed'],
    [{ finding: undefined, livedBefore: false }, 'not_checked_yet'],
    [{ finding: 'identity_broken', entries: undefined }, 'identity_broken'],
    [{ entries: undefined }, 'gate_missing'],
    [{ entries: limits.drainLagEntriesMax + 1, oldestMs: 1e9 }, 'drain_lag'],
    [{ oldestMs: limits.oldestUnsettledMaxMs + 1 }, 'oldest_unsettled'],
  ]
  for (const [condition, reason] of worst) assert.equal(reasonToWithhold({ ...well, ...condition }), reason)
})

test('a life of Redis ends with its id, or when its offset falls', () => {
  const life = { id: 'a', offset: 100, evictionPolicy: undefined, nowMs: 0, clockAheadMs: 0 }
  assert.ok(isSameLife(life, { ...life, offset: 100 }))
  assert.ok(isSameLife(life, { ...life, offset: undefined }))
  assert.ok(!isSameLife(life, { ...life, offset: 99 }))
  assert.ok(!isSameLife(life, { ...life, id: 'b' }))
  assert.ok(!isSameLife(life, { ...life, id: undefined }))
})

test('a bucket is final only when every other of its campaign is known to be empty', () => {
  const watched = (campaignId: string, bucket: number, remaining?: number): Watched => ({
    bucket: {
      campaignId,
      bucket,
      primedAtMs: 0,
      ballot: false,
      tailPolicy: 'rebalance',
      elsewhere: 0,
      epoch: 1,
    },
    finding: undefined,
    life: undefined,
    livedBefore: false,
    checkDueAt: 0,
    recheckAt: 0,
    doubted: false,
    lease: remaining === undefined ? undefined : ({ remaining } as NonNullable<Watched['lease']>),
    withheld: undefined,
    stranded: undefined,
  })
  const alone = watched('alone', 0)
  const [empty, stocked] = [watched('two', 0, 0), watched('two', 1, 5)]
  const [known, unknown] = [watched('three', 0, 0), watched('three', 1)]
  const [none, nil] = [watched('four', 0, 0), watched('four', 1, 0)]
  const final = findFinal([alone, empty, stocked, known, unknown, none, nil])
  assert.deepEqual([...final], [alone, stocked, unknown, none, nil])
})
