import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeLog } from './log.ts'

test('the log says the same event once a second, and how often it was left unsaid', () => {
  const time = { nowMs: 0 }
  const lines: Record<string, unknown>[] = []
  const log = makeLog(
    () => time.nowMs,
    (line) => void lines.push(JSON.parse(line)),
  )
  for (let i = 0; i < 5; i++) log('away', { n: i })
  log('other')
  time.nowMs = 1_000
  log('away', { n: 9 })
  assert.deepEqual(lines, [
    { event: 'away', n: 0 },
    { event: 'other' },
    { event: 'away', n: 9, suppressed: 4 },
  ])
})
