import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { UserSet } from './userSet.ts'

test('every member is found, also after the set went through a cache', () => {
  fc.assert(
    fc.property(fc.array(fc.string(), { maxLength: 500 }), (users) => {
      const set = new UserSet()
      for (const user of users) set.add(user)
      const copy = UserSet.from(set.bytes.slice().buffer)
      assert.ok(users.every((user) => set.has(user) && copy?.has(user)))
    }),
  )
})

test('of a hundred thousand strangers next to none is taken for one of a hundred thousand members', () => {
  const set = new UserSet()
  for (let i = 0; i < 100_000; i++) set.add(`member ${i}`)
  let taken = 0
  for (let i = 0; i < 100_000; i++) if (set.has(`stranger ${i}`)) taken++
  assert.ok(taken <= 20, `${taken} taken`)
  assert.ok(set.bytes.byteLength <= 1 << 20, `${set.bytes.byteLength} bytes`)
})

test('bytes that are no set are refused', () => {
  for (const bytes of [0, 4, 252, 260, 1000]) assert.equal(UserSet.from(new ArrayBuffer(bytes)), undefined)
  assert.equal(UserSet.from(new Uint32Array(64).fill(7).buffer), undefined)
})
