import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Registry } from 'prom-client'
import { createApp } from '../http/app.ts'
import type { CoreApp } from '../http/types.ts'
import { answerOf, makeRig, type Rig } from '../rig.test.ts'
import { registerPushRoutes } from './routes.ts'
import { makeVapidKey, openBrowser } from './testing.ts'
import { makeVapid } from './vapid.ts'

const path = '/v1/me/push-subscriptions'
const vapid = { privateKey: makeVapidKey(), subject: 'https://shop.example/contact' }
let rig: Rig
let app: CoreApp
before(async () => {
  rig = await makeRig()
  const deps = { ...rig.deps, metrics: new Registry(), env: { ...rig.deps.env, vapid } }
  app = createApp(deps)
  registerPushRoutes(app, deps)
})
after(() => rig.close())

async function ask(user: string, method: string, at = path, body?: unknown) {
  const headers = {
    'Tidegate-Assertion': rig.assertion(user),
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
  }
  const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) }
  return answerOf(await app.request(at, init))
}

test('a browser is subscribed, listed for its user only, and unsubscribed', async () => {
  const { subscription } = openBrowser('https://updates.push.services.mozilla.com/wpush/v2/abc')
  const made = await ask('ann', 'POST', path, { ...subscription, expirationTime: null })
  assert.equal(made.status, 200, made.text)
  assert.equal(made.headers.get('Cache-Control'), 'no-store')
  const list = await ask('ann', 'GET')
  assert.deepEqual(list.body, {
    vapid_public_key: makeVapid(vapid.privateKey, vapid.subject).publicKey,
    data: [made.body],
  })
  // Whoever reads the list learns no address that could be pushed to.
  assert.doesNotMatch(list.text, /mozilla/)
  assert.deepEqual((await ask('bob', 'GET')).body['data'], [])
  const one = `${path}/${made.body['id']}`
  assert.deepEqual((await ask('bob', 'DELETE', one)).body, { removed: false })
  assert.deepEqual((await ask('ann', 'DELETE', one)).body, { removed: true })
  assert.deepEqual((await ask('ann', 'DELETE', one)).body, { removed: false })
})

test('what is no subscription of a browser is refused with the cure, and nobody subscribes for another', async () => {
  const { subscription } = openBrowser('https://shop.example/me')
  for (const body of [{}, subscription, { ...subscription, keys: {} }, { ...subscription, user_id: 'bob' }]) {
    const refused = await ask('ann', 'POST', path, body)
    assert.deepEqual([refused.status, refused.body['code']], [400, 'INVALID_REQUEST'])
  }
  assert.equal((await app.request(path)).status, 401)
})

test('without VAPID keys it is not offered, and says what to do instead', async () => {
  const answer = await answerOf(
    await rig.app.request(path, { headers: { 'Tidegate-Assertion': rig.assertion('ann') } }),
  )
  assert.deepEqual([answer.status, answer.body['code']], [404, 'NOT_FOUND'])
  assert.match(answer.body['detail'] as string, /not offered/)
})
