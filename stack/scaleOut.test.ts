import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Redis } from 'ioredis'
import { until } from './process.ts'
import { furtherFolders } from './scaleOut.ts'
import { startStack } from './stack.ts'
import { temporaryFolder } from './testing.ts'

test('what a former run left is looked for where it was, those who use others first', () => {
  const dir = temporaryFolder('further')
  for (const name of [
    'redis-two',
    'edge-2',
    'core-3',
    'gateway-two',
    'redis-node-1',
    'redis',
    'keys',
    'core',
  ])
    mkdirSync(join(dir, name))
  assert.deepEqual(
    furtherFolders(dir).map(({ folder }) => folder.slice(dir.length + 1)),
    ['edge-2', 'core-3', 'gateway-two', 'redis-node-1/redis', 'redis-two/redis'],
  )
})

test('a further store has a Redis and a gateway of its own, and its data at the next start', async () => {
  const dir = temporaryFolder('stores')
  const options = { dir, only: ['redis' as const, 'gateway' as const], scale: { stores: ['two'] } }
  for (const found of [null, 'kept']) {
    const stack = await startStack(options)
    try {
      const [two] = stack.scaled.stores
      assert.equal(two!.name, 'two')
      const redis = new Redis(two!.redis)
      assert.equal(await redis.get('it'), found)
      await redis.set('it', 'kept')
      redis.disconnect()
      const ask = async (gateway: string) => {
        const headers = { Authorization: `Bearer ${stack.keys.gatewayToken}` }
        const body = JSON.stringify(['GET', 'it'])
        return (await (await fetch(gateway, { method: 'POST', headers, body })).json()) as { result: unknown }
      }
      assert.equal((await ask(two!.gateway)).result, 'kept')
      assert.equal((await ask(stack.endpoints.gateway)).result, null)
    } finally {
      await stack.stop()
    }
  }
})

test('a cluster is formed anew at each start', async () => {
  const dir = temporaryFolder('cluster')
  for (let start = 0; start < 2; start++) {
    const stack = await startStack({
      dir,
      only: ['redis', 'gateway'],
      scale: { cluster: { masters: 3, replicas: 1 } },
    })
    try {
      const urls = stack.endpoints.redis.split(',')
      assert.equal(urls.length, 3)
      const redis = new Redis(urls[0]!)
      const formed = /cluster_state:ok[\s\S]*cluster_known_nodes:4[\s\S]*cluster_size:3/
      // A node that was stalled is missed for a moment.
      const isFormed = async () => formed.test((await redis.cluster('INFO')) as string)
      await until(isFormed, 'the cluster is not whole', 30_000)
      redis.disconnect()
    } finally {
      await stack.stop()
    }
  }
})
