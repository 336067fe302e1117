import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Instants } from './instants.ts'

/** Few low bits, so that keys meet in their cells; and as many bits as a hash has. */
const anyKey = fc.oneof(
  fc.integer({ min: 1, max: 40 }),
  fc.integer({ min: 0, max: 20 }).map((high) => high * 2 ** 32 + 7),
  fc.integer({ min: 1, max: 2 ** 53 - 1 }),
)
const anyStep = fc.oneof(
  { weight: 20, arbitrary: fc.tuple(anyKey, fc.integer({ min: 1, max: 2 ** 45 })) },
  { weight: 1, arbitrary: fc.constant('clear' as const) },
)

test('instants are as a map would have them, whatever keys come', () => {
  fc.assert(
    fc.property(fc.array(anyStep, { maxLength: 400 }), fc.array(anyKey), (steps, strangers) => {
      const instants = new Instants()
      const model = new Map<number, number>()
      for (const step of steps) {
        if (step === 'clear') {
          instants.clear()
          model.clear()
        } else {
          instants.set(...step)
          model.set(...step)
        }
        assert.equal(instants.size, model.size)
      }
      for (const key of [...model.keys(), ...strangers]) assert.equal(instants.get(key), model.get(key) ?? 0)
    }),
  )
})
