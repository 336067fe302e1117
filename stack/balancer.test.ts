import assert from 'node:assert/strict'
import { createServer, type Server } from 'node:http'
import { test } from 'node:test'
import { startBalancer } from './balancer.ts'

async function serve(name: string): Promise<{ server: Server; url: string }> {
  const server = createServer((_, response) => response.end(name))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { server, url: `http://127.0.0.1:${(server.address() as { port: number }).port}` }
}

test('connections go to the servers in turn, and past one that is away', async () => {
  const [one, two] = await Promise.all([serve('one'), serve('two')])
  const balancer = await startBalancer([one.url, two.url])
  const ask = async () => (await fetch(balancer.url, { headers: { Connection: 'close' } })).text()
  assert.deepEqual([await ask(), await ask(), await ask()], ['one', 'two', 'one'])
  await new Promise((resolve) => two.server.close(resolve))
  assert.deepEqual([await ask(), await ask(), await ask()], ['one', 'one', 'one'])
  await balancer.close()
  await new Promise((resolve) => one.server.close(resolve))
})
