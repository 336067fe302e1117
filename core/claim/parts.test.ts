import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isRequestId, timeOfRequestId } from '../../schema/acceptance.ts'
import { crewFor, crewMax, crewMin } from './crew.ts'
import { failureOf } from './failures.ts'
import { isWorthTelling, makeAlarm, within } from './patience.ts'
import { UnknownRules, validityAt } from './rules.ts'
import { makeSlots } from './slots.ts'
import { uuid7 } from './uuid7.ts'

test('ids are UUIDv7 of their instant, and no two are equal', () => {
  const now = 1_790_000_000_123
  const ids = Array.from({ length: 5_000 }, () => uuid7(now))
  assert.equal(new Set(ids).size, ids.length)
  for (const id of ids) assert.ok(isRequestId(id) && timeOfRequestId(id) === now, id)
})

test('a validity of days counts from the issue, a fixed one is as it stands', () => {
  const now = Date.UTC(2026, 2, 28, 12)
  assert.deepEqual(validityAt({ kind: 'days', days: 2 }, now), {
    from: '2026-03-28T12:00:00.000Z',
    to: '2026-03-30T12:00:00.000Z',
  })
  const fixed = { kind: 'fixed' as const, from: '2026-01-01T00:00:00Z', to: '2026-02-01T00:00:00Z' }
  assert.deepEqual(validityAt(fixed, now), { from: fixed.from, to: fixed.to })
})

test('only what Postgres says about the rows counts against the claims', () => {
  const said = (code: string) => Object.assign(new Error('x'), { name: 'PostgresError', code })
  for (const [code, failure] of [
    ['22021', 'data'],
    ['23514', 'data'],
    ['54000', 'data'],
    ['23505', 'conflict'],
    ['40P01', 'conflict'],
    ['57P01', 'away'],
    ['53300', 'away'],
    ['42501', 'setup'],
    ['25006', 'setup'],
  ] as const)
    assert.equal(failureOf(said(code)), failure, code)
  assert.equal(failureOf(Object.assign(new Error('x'), { code: 'CONNECTION_CLOSED' })), 'away')
  assert.equal(failureOf(Object.assign(new Error('x'), { code: 'ECONNREFUSED' })), 'away')
  assert.equal(failureOf(new UnknownRules('c', 1)), 'data')
  assert.equal(failureOf(new TypeError('ours')), 'fault')
  assert.equal(failureOf(undefined), 'fault')
})

test('slots let in no more than there are, in order, and tell when none is taken', async () => {
  const slots = makeSlots(2)
  const order: string[] = []
  const first = await slots.take()
  const second = await slots.take()
  const third = slots.take().then((release) => {
    order.push('third')
    return release
  })
  const idle = slots.idle().then(() => order.push('idle'))
  await Promise.resolve()
  assert.deepEqual(order, [])
  first()
  const last = await third
  second()
  last()
  await idle
  assert.deepEqual(order, ['third', 'idle'])
})

test('slots that shrink let in nobody until enough are free, and those that grow let in who waits', async () => {
  const slots = makeSlots(2)
  const [first, second] = [await slots.take(), await slots.take()]
  slots.resize(1)
  let admitted = false
  const third = slots.take().then((release) => {
    admitted = true
    return release
  })
  first()
  await Promise.resolve()
  assert.equal(admitted, false)
  slots.resize(2)
  ;(await third)()
  second()
  await slots.idle()
})

test('the number of workers follows the backlog, within what the connections allow (IS8)', () => {
  assert.equal(crewFor(0), crewMin)
  assert.equal(crewFor(10_000_000), crewMax)
  const sizes = Array.from({ length: 100 }, (_, i) => crewFor(i * 16))
  assert.deepEqual(sizes, [...sizes].sort())
})

test('an alarm rung before the wait ends it at once, and one that never rings ends with the time', async () => {
  const abort = new AbortController()
  const alarm = makeAlarm(abort.signal)
  alarm.wake()
  await within(alarm.wait(60_000), 1_000, 'the first wait')
  const waiting = alarm.wait(60_000)
  alarm.wake()
  await within(waiting, 1_000, 'the second wait')
  await within(alarm.wait(1), 1_000, 'the third wait')
  abort.abort()
  await within(alarm.wait(60_000), 1_000, 'the wait after the end')
})

test('a failure that lasts is told ever less often', () => {
  const told = Array.from({ length: 100 }, (_, i) => i + 1).filter(isWorthTelling)
  assert.deepEqual(told, [1, 2, 4, 8, 16, 32, 64])
})
