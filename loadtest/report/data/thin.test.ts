import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { sampleRecord } from '../sample.fixture.ts'
import { compactJson, samplesMax, thinRecord, thinTimeline } from './thin.ts'

const timeline = (series: Record<string, (number | null)[]>) => ({
  every_ms: 100,
  series,
  events: [{ at_ms: 40, label: 'kill' }],
})

describe('a thinned time line', () => {
  test('keeps the peak of a latency and of the backlog, the shortest lease, the last level, the mean of a rate', () => {
    const values = [1, 9, 2, 4]
    const { series, every_ms, events } = thinTimeline(
      timeline({
        accept_p99_ms: values,
        backlog: values,
        lease_ms: values,
        remaining: values,
        accepted: values,
      }),
      2,
    )
    assert.deepEqual(series, {
      accept_p99_ms: [9, 4],
      backlog: [9, 4],
      lease_ms: [1, 2],
      remaining: [9, 4],
      accepted: [5, 3],
    })
    assert.equal(every_ms, 200)
    assert.deepEqual(events, [{ at_ms: 40, label: 'kill' }])
  })

  test('has a gap only where no sample could be read', () => {
    assert.deepEqual(thinTimeline(timeline({ backlog: [null, 3, null, null] }), 2).series, {
      backlog: [3, null],
    })
  })

  test('is never longer than allowed, spans the same time, and keeps the sum of a rate but for rounding', () => {
    const samples = fc.array(fc.integer({ min: 0, max: 9999 }), { minLength: 1, maxLength: 2000 })
    fc.assert(
      fc.property(samples, fc.integer({ min: 1, max: 400 }), (offered, max) => {
        const thinned = thinTimeline(timeline({ offered }), max)
        const kept = thinned.series['offered']!
        assert.ok(kept.length <= max)
        assert.ok(kept.length * thinned.every_ms >= offered.length * 100)
        const by = thinned.every_ms / 100
        const weighed = kept.map((value, i) => value! * Math.min(by, offered.length - i * by))
        const [before, after] = [offered, weighed].map((all) => all.reduce((sum, value) => sum + value, 0))
        assert.ok(Math.abs(before! - after!) <= before! * 0.006, `${before} ${after}`)
      }),
    )
  })

  test('stays as it is when thinned again', () => {
    const once = thinRecord(sampleRecord(1, 1000))
    assert.ok(Object.values(once.scenarios[0]!.timeline.series).every(({ length }) => length <= samplesMax))
    assert.deepEqual(thinRecord(once), once)
  })
})

test('compact JSON says the same, with a series on one line', () => {
  const record = {
    ...sampleRecord(1, 40),
    notes: ['[ 1,\n 2 ]', '[ 1, 2 ]'],
    empty: [],
    mixed: [1e-7, -2.5, null],
  }
  const text = compactJson(record)
  assert.deepEqual(JSON.parse(text), record)
  assert.match(text, /"offered": \[[\d., null]+\]/)
  assert.ok(text.split('\n').length < 2500)
})
