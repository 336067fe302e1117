import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { RunRecord, ScenarioRecord } from '../../record/record.ts'
import { emptyRecord, sampleRecord } from '../sample.fixture.ts'
import { compare, judge } from './compare.ts'

const flood = (record: RunRecord) => record.scenarios[0]!

function withFlood(change: Partial<ScenarioRecord>): RunRecord {
  const record = sampleRecord()
  return { ...record, scenarios: [{ ...flood(record), ...change }, ...record.scenarios.slice(1)] }
}

const found = (before: RunRecord, after: RunRecord, what: string) =>
  compare(before, after).differences.find((one) => one.where === 'opening-flood' && one.what === what)!

describe('a difference', () => {
  test('counts only beyond its band, both ways', () => {
    assert.equal(judge(100, 115, 'throughput', 'higher'), 'within noise')
    assert.equal(judge(100, 116, 'throughput', 'higher'), 'better')
    assert.equal(judge(100, 84, 'throughput', 'higher'), 'worse')
    assert.equal(judge(0.3, 0.32, 'count', 'lower'), 'worse')
    assert.equal(judge(0.3, 0.28, 'count', 'lower'), 'better')
  })

  test('of a few ms is noise however large its share', () => {
    assert.equal(judge(2, 6, 'tail', 'lower'), 'within noise')
    assert.equal(judge(2, 8, 'tail', 'lower'), 'worse')
  })

  test('from nothing to something counts', () => {
    assert.equal(judge(0, 0.01, 'count', 'lower'), 'worse')
    assert.equal(judge(0, 0, 'count', 'lower'), 'within noise')
  })
})

describe('two records', () => {
  test('that are the same differ in nothing', () => {
    const { differences, turns, added, gone, cautions } = compare(sampleRecord(), sampleRecord())
    assert.ok(differences.length > 50)
    assert.deepEqual(
      differences.filter(({ says }) => says !== 'within noise'),
      [],
    )
    assert.deepEqual([turns, added, gone, cautions], [[], [], [], []])
  })

  test('show a latency that has grown as worse, with both values and their ratio', () => {
    const latencies = flood(sampleRecord()).latencies.map((one) => ({ ...one, p99_ms: one.p99_ms * 2 }))
    const { before, after, ratio, says } = found(sampleRecord(), withFlood({ latencies }), 'accept p99')
    assert.deepEqual({ ratio, says, after }, { ratio: 2, says: 'worse', after: before * 2 })
    assert.equal(found(withFlood({ latencies }), sampleRecord(), 'accept p99').says, 'better')
  })

  test('show a criterion that no longer passes, whatever the figures say', () => {
    const criteria = flood(sampleRecord()).criteria.map((one, i) =>
      i === 0 ? { ...one, passed: false } : one,
    )
    const { turns } = compare(sampleRecord(), withFlood({ criteria, passed: false }))
    assert.deepEqual(turns, [
      { where: 'scenario opening-flood', what: 'whole', says: 'worse' },
      { where: 'scenario opening-flood', what: 'accept p99 ≤ 90 ms', says: 'worse' },
    ])
  })

  test('are not compared by percentiles of a few answers', () => {
    const few = flood(sampleRecord()).latencies.map((one) => ({ ...one, count: 30, p99_ms: one.p99_ms * 9 }))
    const { differences, gone } = compare(sampleRecord(), withFlood({ latencies: few }))
    assert.equal(
      differences.some(({ says }) => says === 'worse'),
      false,
    )
    assert.ok(gone.includes('opening-flood · accept p99'))
  })

  test('name what only one of them has', () => {
    const { added, gone } = compare(emptyRecord(), sampleRecord())
    assert.ok(added.includes('bench lua · ratio_batch32'))
    assert.deepEqual(gone, [])
    assert.ok(compare(sampleRecord(), emptyRecord()).gone.includes('opening-flood · accept p99'))
  })

  test('of other machines, versions or settings are compared with caution', () => {
    const other = withFlood({ settings: { ...flood(sampleRecord()).settings, quota: 9, rate_per_s: 3100 } })
    const machine = { ...other.machine, cpus: 8, versions: { ...other.machine.versions, redis: '8.0' } }
    assert.deepEqual(compare(sampleRecord(), { ...other, machine }).cautions, [
      'Cores: 2 before, 8 now.',
      'Version of redis: 7.0.15 before, 8.0 now.',
      'opening-flood, setting quota: 5000 before, 9 now.',
    ])
  })
})
