import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bounds } from './bounds.ts'
import { Metrics } from './metrics.ts'

test('counts are written together, each once', () => {
  let nowMs = 0
  const points: unknown[] = []
  const metrics = new Metrics({ writeDataPoint: (point) => void points.push(point) }, () => nowMs)
  for (let i = 0; i < 1_000; i++) metrics.count('SOLD_OUT')
  metrics.count('ACCEPTED')
  assert.deepEqual(points, [])
  nowMs = bounds.metricsEveryMs
  metrics.count('ACCEPTED')
  nowMs *= 2
  metrics.count('BUSY')
  const point = (name: string, count: number) => ({ indexes: ['claims'], blobs: [name], doubles: [count] })
  assert.deepEqual(points, [point('SOLD_OUT', 1_000), point('ACCEPTED', 2), point('BUSY', 1)])
  assert.deepEqual(Object.fromEntries(metrics.totals), { SOLD_OUT: 1_000, ACCEPTED: 2, BUSY: 1 })
})

test('without a dataset nothing is written', () => {
  let nowMs = 0
  const metrics = new Metrics(undefined, () => nowMs)
  for (let i = 0; i < 10; i++, nowMs += bounds.metricsEveryMs) metrics.count('BUSY')
})
