import { Hono } from 'hono'

/**
 * The bare worker, whose requests wait for a call that up to 64 of them share: what the runtime takes for that alone,
 * without tokens, limits, records or receipts. The call is the smallest there is (PING).
 */

interface Bindings {
  REST_URL: string
  REST_TOKEN: string
}

const app = new Hono<{ Bindings: Bindings }>()
let waiting: (() => void)[] = []
let calling = false

app.post('/v1/campaigns/:id/claims', async (c) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  waiting.push(resolve)
  // The runtime ends a request that has nothing of its own to wait for.
  setTimeout(resolve, 2_500)
  if (!calling) c.executionCtx.waitUntil(callWhileSomeWait(c.env))
  await promise
  return c.json({ id: c.req.param('id'), status: 'ACCEPTED' }, 202)
})

async function callWhileSomeWait({ REST_URL, REST_TOKEN }: Bindings): Promise<void> {
  calling = true
  while (waiting.length > 0) {
    const group = waiting.slice(0, 64)
    waiting = waiting.slice(64)
    const response = await fetch(REST_URL, {
      method: 'POST',
      headers: { Authorization: `Bearer ${REST_TOKEN}` },
      body: '["PING"]',
    })
    await response.json()
    for (const resolve of group) resolve()
  }
  calling = false
}

export default app
