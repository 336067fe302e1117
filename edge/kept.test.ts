import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Kept } from './kept.ts'

const lifetime = { waitUntil: () => undefined }

/** A Kept whose loads are answered by hand, at a clock set by hand. */
function kept(entriesMax = 10) {
  const loads: { key: string; resolve(value: string): void; reject(error: unknown): void }[] = []
  const time = { nowMs: 1_000_000 }
  const values = new Kept<string>({
    what: 'test',
    load: (key) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>()
      loads.push({ key, resolve, reject })
      return promise
    },
    ttlMs: (value) => (value === 'short' ? 10 : 1_000),
    retryMs: 500,
    staleMs: 60_000,
    timeoutMs: 2_000,
    entriesMax,
    clock: () => time.nowMs,
  })
  const get = (key = 'k') => values.get(key, lifetime)
  return { values, loads, time, get }
}

async function settled(): Promise<void> {
  for (let i = 0; i < 10; i++) await Promise.resolve()
}

test('however many ask at once, a value is loaded once, and again only after its time', async () => {
  const { loads, time, get } = kept()
  const asked = Array.from({ length: 50 }, () => get())
  assert.equal(loads.length, 1)
  loads[0]!.resolve('one')
  assert.deepEqual(new Set(await Promise.all(asked)), new Set(['one']))
  time.nowMs += 999
  assert.equal(await get(), 'one')
  assert.equal(loads.length, 1)
  time.nowMs += 1
  const again = get()
  loads[1]!.resolve('two')
  assert.equal(await again, 'two')
})

test('each value says how long it keeps', async () => {
  const { loads, time, get } = kept()
  const first = get()
  loads[0]!.resolve('short')
  await first
  time.nowMs += 10
  const again = get()
  assert.equal(loads.length, 2)
  loads[1]!.resolve('long')
  assert.equal(await again, 'long')
})

test('while loads fail, the last value serves without waiting, and one load is tried in each interval', async () => {
  const { loads, time, get } = kept()
  const first = get()
  loads[0]!.resolve('last')
  await first
  time.nowMs += 1_000
  const stale = get()
  loads[1]!.reject(new Error('away'))
  assert.equal(await stale, 'last')
  for (let i = 0; i < 20; i++) assert.equal(await get(), 'last')
  assert.equal(loads.length, 2)
  time.nowMs += 500
  assert.equal(await get(), 'last')
  assert.equal(await get(), 'last')
  assert.equal(loads.length, 3)
  loads[2]!.resolve('back')
  await settled()
  assert.equal(await get(), 'back')
})

test('a value is not served beyond its stale bound', async () => {
  const { loads, time, get } = kept()
  const first = get()
  loads[0]!.resolve('old')
  await first
  time.nowMs += 60_000
  const late = get()
  loads[1]!.reject(new Error('away'))
  await assert.rejects(late, /away/)
  await assert.rejects(get(), /away/)
})

test('without any value a failure is told to all who ask within the interval, without another load', async () => {
  const { loads, time, get } = kept()
  const asked = [get(), get()]
  loads[0]!.reject(new Error('away'))
  for (const one of asked) await assert.rejects(one, /away/)
  await assert.rejects(get(), /away/)
  assert.equal(loads.length, 1)
  time.nowMs += 500
  const again = get()
  loads[1]!.resolve('back')
  assert.equal(await again, 'back')
})

test('a load whose request died is replaced by another', async () => {
  const { loads, time, get } = kept()
  const first = get()
  time.nowMs += 2_500
  const again = get()
  assert.equal(loads.length, 2)
  loads[1]!.resolve('alive')
  assert.equal(await again, 'alive')
  loads[0]!.resolve('late')
  await first
})

test('an expired value is loaded again at once, but not one younger than asked for', async () => {
  const { values, loads, time, get } = kept()
  const first = get()
  loads[0]!.resolve('one')
  await first
  assert.equal(values.expire('k', 100), false)
  time.nowMs += 100
  assert.equal(values.expire('k', 100), true)
  const again = get()
  loads[1]!.resolve('two')
  assert.equal(await again, 'two')
  assert.equal(values.expire('never seen', 0), false)
})

test('memory is bounded: the oldest entry goes first', async () => {
  const { loads, get } = kept(2)
  for (const key of ['a', 'b', 'c']) {
    const value = get(key)
    loads.at(-1)!.resolve(key)
    await value
  }
  assert.equal(await get('b'), 'b')
  const again = get('a')
  loads.at(-1)!.resolve('a')
  await again
  assert.deepEqual(
    loads.map(({ key }) => key),
    ['a', 'b', 'c', 'a'],
  )
})
