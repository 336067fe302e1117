import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../schema/limits.ts'
import { bounds } from './bounds.ts'
import { StreamPlaces } from './streamPlaces.ts'

function makePlaces() {
  const at = { nowMs: 1_000 }
  return { at, places: new StreamPlaces(() => at.nowMs) }
}

test('a user has so many places, each given back once however often it is released, and nobody else’s', () => {
  const { places } = makePlaces()
  const taken = Array.from({ length: limits.sseConnectionsPerUserMax }, () => places.take('ann')!)
  assert.equal(places.take('ann'), undefined)
  assert.ok(places.take('bob'))
  taken[0]!()
  taken[0]!()
  assert.ok(places.take('ann'))
  assert.equal(places.take('ann'), undefined)
})

test('a place whose request died is given back when its stream would have ended', () => {
  const { at, places } = makePlaces()
  for (let i = 0; i < limits.sseConnectionsPerUserMax; i++) places.take('ann')
  at.nowMs += limits.sseLifetimeMs
  assert.equal(places.take('ann'), undefined)
  at.nowMs += limits.coreTimeoutMs
  assert.ok(places.take('ann'))
})

test('memory follows the open streams', () => {
  const { at, places } = makePlaces()
  for (let i = 0; i < 100; i++) places.take(`user ${i}`)!()
  assert.equal(places.users, 0)
  for (let i = 0; i < bounds.streamUsersSweep; i++) places.take(`dead ${i}`)
  at.nowMs += limits.sseLifetimeMs + limits.coreTimeoutMs
  places.take('ann')
  assert.equal(places.users, 1)
})
