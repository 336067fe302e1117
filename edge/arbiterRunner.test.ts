import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ArbiterError, type ScriptRunner } from '../lua/runner.ts'
import { inspect } from '../lua/stock.ts'
import { storeRunner } from './arbiterRunner.ts'

const asked: string[] = []
const named = (name: string): ScriptRunner => ({
  async run() {
    asked.push(name)
    throw new ArbiterError('unknown', 'no answer')
  },
})
const runner = storeRunner(new Map(['main', 'two'].map((name) => [name, named(name)])))
const plain = 'c0123456789abcdefghjkmnpq'

test('a campaign is looked for in the store that its id names, and in no other', async () => {
  for (const [campaignId, store] of [
    [plain, 'main'],
    [`${plain}-two`, 'two'],
  ] as const) {
    asked.length = 0
    await assert.rejects(inspect(runner, { campaignId, bucket: 7 }, 'ann'))
    assert.deepEqual(asked, [store])
  }
})

test('a store that is not configured is refused before anything is sent', async () => {
  asked.length = 0
  await assert.rejects(
    inspect(runner, { campaignId: `${plain}-three`, bucket: 0 }, 'ann'),
    (error: Error) =>
      error instanceof ArbiterError && error.failure === 'refused' && /three/.test(error.message),
  )
  assert.deepEqual(asked, [])
})
