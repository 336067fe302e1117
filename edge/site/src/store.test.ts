/// <reference types="node" />
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { userOf } from './login.ts'
import { browserStore, newRecord, uuid as realUuid } from './store.ts'

class MemoryStorage {
  full = false
  readonly items = new Map<string, string>()
  getItem(name: string): string | null {
    return this.items.get(name) ?? null
  }
  setItem(name: string, value: string): void {
    if (this.full) throw new Error('QuotaExceededError')
    this.items.set(name, value)
  }
}
let made = 0
const uuid = () => `uuid-${++made}`
const over = (storage?: MemoryStorage) => browserStore(storage as unknown as Storage | undefined, uuid)

test('a claim that was written is read again after a reload, under its user and campaign only', () => {
  const storage = new MemoryStorage()
  const record = { ...newRecord('key-1', 0), pending: true, unheard: true }
  over(storage).write('c1', 'ada', record)
  assert.deepEqual(over(storage).read('c1', 'ada'), record)
  assert.notEqual(over(storage).read('c1', 'bob').key, 'key-1')
  assert.notEqual(over(storage).read('c2', 'ada').key, 'key-1')
})

test('the device keeps its id', () => {
  const storage = new MemoryStorage()
  assert.equal(over(storage).deviceId(), over(storage).deviceId())
})

test('a storage that refuses or is not there is replaced by memory while the page lives', () => {
  const full = new MemoryStorage()
  full.full = true
  for (const store of [over(full), over(undefined)]) {
    store.write('c1', 'ada', newRecord('key-2', 0))
    assert.equal(store.read('c1', 'ada').key, 'key-2')
    assert.equal(store.deviceId(), store.deviceId())
  }
})

test('damaged entries count as none', () => {
  const storage = new MemoryStorage()
  storage.setItem('tidegate:claim:c1:ada', '{')
  storage.setItem('tidegate:view:c1', '[')
  assert.match(over(storage).read('c1', 'ada').key, /^uuid-/)
  assert.equal(over(storage).lastView('c1'), undefined)
})

test('a claim is filed under the login’s subject, and an opaque login under its own name', () => {
  const jwt = (payload: object) => `e30.${Buffer.from(JSON.stringify(payload)).toString('base64url')}.x`
  assert.equal(userOf(jwt({ sub: 'ada' })), 'ada')
  assert.match(userOf('opaque'), /^opaque-/)
  assert.notEqual(userOf('opaque-a'), userOf('opaque-b'))
  assert.match(userOf(jwt({})), /^opaque-/)
})

test('a key is a random UUID of version 4', () => {
  const made = Array.from({ length: 200 }, realUuid)
  for (const each of made)
    assert.match(each, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.equal(new Set(made).size, 200)
})
