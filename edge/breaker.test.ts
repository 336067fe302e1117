import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bounds } from './bounds.ts'
import { Breaker, CircuitOpen } from './breaker.ts'

function circuit() {
  const at = { nowMs: 1_000 }
  const events: string[] = []
  const options = { what: 'x', log: (event: string) => void events.push(event), callEndsMs: 3_000 }
  const breaker = new Breaker({ ...options, clock: () => at.nowMs })
  const call = (work: () => Promise<string>) => breaker.run(work, (error) => error === 'away')
  const ok = () => call(async () => 'ok')
  const away = () =>
    assert.rejects(
      call(() => Promise.reject('away')),
      (error) => error === 'away',
    )
  const open = async () => {
    for (let i = 0; i < bounds.circuitFailuresMax; i++) await away()
  }
  return { at, events, call, ok, away, open }
}
const refused = (error: unknown) =>
  error instanceof CircuitOpen && error.retryAfterMs! > 0 && error.retryAfterMs! <= bounds.circuitOpenMs

test('after so many failures in a row nobody is asked, and everybody hears when to come back', async () => {
  const { ok, away, open, events } = circuit()
  for (let i = 1; i < bounds.circuitFailuresMax; i++) await away()
  assert.equal(await ok(), 'ok')
  await open()
  await assert.rejects(ok(), refused)
  assert.deepEqual(events, ['circuit_opened'])
})

test('then one call asks, the others still hear when to come back; its answer closes the circuit', async () => {
  const { at, call, ok, open, events } = circuit()
  await open()
  at.nowMs += bounds.circuitOpenMs
  const { promise, resolve } = Promise.withResolvers<string>()
  const probe = call(() => promise)
  await assert.rejects(ok(), refused)
  resolve('back')
  assert.equal(await probe, 'back')
  assert.equal(await ok(), 'ok')
  assert.deepEqual(events, ['circuit_opened', 'circuit_closed'])
})

test('a probe that fails opens the circuit anew', async () => {
  const { at, ok, away, open } = circuit()
  await open()
  at.nowMs += bounds.circuitOpenMs
  await away()
  await assert.rejects(ok(), refused)
  at.nowMs += bounds.circuitOpenMs
  assert.equal(await ok(), 'ok')
})

test('a probe whose request died gives its place to the next', async () => {
  const { at, call, ok, open } = circuit()
  await open()
  at.nowMs += bounds.circuitOpenMs
  void call(() => new Promise(() => undefined))
  await assert.rejects(ok(), refused)
  at.nowMs += 3_000
  assert.equal(await ok(), 'ok')
})

test('an error that is an answer counts as one', async () => {
  const { call, away, ok } = circuit()
  for (let i = 0; i < 3 * bounds.circuitFailuresMax; i++) {
    for (let n = 1; n < bounds.circuitFailuresMax; n++) await away()
    await assert.rejects(call(() => Promise.reject(new Error('refused'))))
  }
  assert.equal(await ok(), 'ok')
})
