import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bounds } from '../bounds.ts'
import { LocationLimit } from './location.ts'

/** A counter as the platform's: so many a key, then no more. */
function counter(limit: number) {
  const asked: string[] = []
  const binding = {
    limit: async ({ key }: { key: string }) => {
      asked.push(key)
      return { success: asked.filter((one) => one === key).length <= limit }
    },
  }
  return { asked, binding }
}

function harness(binding: ConstructorParameters<typeof LocationLimit>[0], every: number) {
  const work: Promise<unknown>[] = []
  const events: string[] = []
  let nowMs = 1_000_000
  const location = new LocationLimit(binding, every, (event) => events.push(event))
  return {
    events,
    pass: (ms: number) => {
      nowMs += ms
    },
    async ask(key = 'k'): Promise<number> {
      const wait = location.wait(key, nowMs, () => nowMs, { waitUntil: (part) => void work.push(part) })
      await Promise.all(work.splice(0))
      return wait
    },
  }
}

test('a location over its limit sheds for a moment, each key by itself', async () => {
  const { ask, pass } = harness(counter(2).binding, 1)
  assert.deepEqual([await ask(), await ask(), await ask()], [0, 0, 0])
  assert.equal(await ask(), bounds.locationOverMs)
  assert.equal(await ask('another'), 0)
  pass(bounds.locationOverMs - 1)
  assert.equal(await ask(), 1)
  pass(1)
  assert.equal(await ask(), 0)
})

test('one in so many requests is counted, the first of each key among them', async () => {
  const { asked, binding } = counter(1_000)
  const { ask } = harness(binding, 16)
  for (let i = 0; i < 33; i++) await ask()
  await ask('rare')
  assert.deepEqual(asked, ['k', 'k', 'k', 'rare'])
})

test('a counter that fails sheds nobody and is logged: the limits that decide are others', async () => {
  const { ask, events } = harness({ limit: () => Promise.reject(new Error('away')) }, 1)
  assert.deepEqual([await ask(), await ask()], [0, 0])
  assert.deepEqual(events, ['rate_binding_failed', 'rate_binding_failed'])
})

test('a clock that steps back shuts nobody out for longer', async () => {
  const { ask, pass } = harness(counter(0).binding, 1)
  await ask()
  pass(-900_000)
  assert.ok((await ask()) <= bounds.locationOverMs)
})

test('without a counter nothing is shed', async () => {
  assert.equal(await harness(undefined, 1).ask(), 0)
})
