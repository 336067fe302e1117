/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { serverClock } from './clock.ts'

const t0 = Date.parse('2026-12-05T02:00:00Z')

test('property: the server’s time is known to within half the round trip, however wrong the device is', () => {
  const wrong = fc.integer({ min: -10_000_000, max: 10_000_000 })
  fc.assert(
    fc.property(wrong, fc.nat(3_000), fc.nat(3_000), (deviceAhead, there, back) => {
      const clock = serverClock(() => t0 + there + back + deviceAhead)
      clock.learn({
        sentAt: t0 + deviceAhead,
        receivedAt: t0 + there + back + deviceAhead,
        serverTime: t0 + there,
      })
      assert.ok(Math.abs(clock.now() - (t0 + there + back)) <= (there + back) / 2 + 1)
    }),
  )
})

test('before anything is known the device’s clock has to do, and is not called wrong', () => {
  const clock = serverClock(() => t0)
  assert.equal(clock.now(), t0)
  assert.equal(clock.deviceAhead(), 0)
})

test('a device that is off by more than 2 s is noticed; one within doubt is not', () => {
  const ahead = (ms: number, trip: number) => {
    const clock = serverClock(() => t0 + ms)
    clock.learn({ sentAt: t0 + ms - trip, receivedAt: t0 + ms, serverTime: t0 - trip / 2 })
    return clock.deviceAhead()
  }
  assert.equal(ahead(1_900, 100), 0)
  assert.equal(ahead(2_100, 100), 2_100)
  assert.equal(ahead(-240_000, 100), -240_000)
  assert.equal(ahead(2_600, 2_000), 0, 'half of a slow round trip may explain it')
})

test('an answer from a cache does not turn the clock back: its Date and Age are believed', () => {
  const clock = serverClock(() => t0)
  clock.learn({ sentAt: t0 - 40, receivedAt: t0, serverTime: t0 - 30_000, date: t0 - 500 })
  assert.ok(Math.abs(clock.now() - t0) <= 1_020, String(clock.now() - t0))
})

test('a more exact sample replaces a vaguer one, and not the other way round', () => {
  const clock = serverClock(() => t0)
  clock.learn({ sentAt: t0 - 2_000, receivedAt: t0, serverTime: t0 })
  clock.learn({ sentAt: t0 - 20, receivedAt: t0, serverTime: t0 - 10 })
  assert.equal(clock.now(), t0)
  clock.learn({ sentAt: t0 - 3_000, receivedAt: t0, serverTime: t0 })
  assert.equal(clock.now(), t0)
})

test('a device whose clock was set meanwhile is believed anew', () => {
  let device = t0
  const clock = serverClock(() => device)
  clock.learn({ sentAt: t0 - 20, receivedAt: t0, serverTime: t0 - 10 })
  device = t0 - 3_600_000
  clock.learn({ sentAt: device - 800, receivedAt: device, serverTime: t0 + 5_000 })
  assert.equal(clock.now(), t0 + 5_400)
  assert.ok(clock.deviceAhead() < -3_600_000)
})
