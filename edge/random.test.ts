import assert from 'node:assert/strict'
import { randomFillSync } from 'node:crypto'
import { test } from 'node:test'
import { packRequestId, requestIdOf } from '../schema/acceptance.ts'
import { isSixbit } from '../schema/sixbit.ts'
import { randomText } from './random.ts'

const random = randomText((bytes) => randomFillSync(bytes))

test('random text is six-bit text of the length asked for, over refills of its pool', () => {
  const seen = new Set<string>()
  for (let i = 0; i < 2_000; i++) {
    const text = random.text(9)
    assert.equal(text.length, 9)
    assert.ok(isSixbit(text))
    seen.add(text)
  }
  assert.equal(seen.size, 2_000)
})

test('random text makes request ids that survive packing: the first character has two bits only', () => {
  for (let i = 0; i < 1_000; i++) {
    const packed = `-P7cRhnT${random.requestIdPart()}abc`
    assert.equal(packRequestId(requestIdOf(packed)), packed)
  }
})
