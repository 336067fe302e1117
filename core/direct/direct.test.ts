import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { sixbitFromBytes } from '../../schema/sixbit.ts'
import { type ClaimToken, sealClaimToken } from '../../schema/tokens.ts'
import { type Answer, answerOf, makeRig, type Rig } from '../rig.test.ts'
import { type Published, publishedCampaign } from '../stock/testing.ts'
import { registerDirectRoutes } from './routes.ts'

let rig: Rig
before(async () => {
  rig = await makeRig(undefined, (app, deps) => registerDirectRoutes(app, deps, () => undefined))
})
after(() => rig.close())

const open = (more: Record<string, unknown> = {}) =>
  publishedCampaign(rig, { quota: 5, delivery: 'direct', ...more })

function tokenFor(campaignId: string, userId: string, more: Partial<ClaimToken> = {}): string {
  const now = Date.now()
  const token: ClaimToken = {
    campaignId,
    bucket: 0,
    userId,
    deviceHash: 'device',
    notBeforeMs: now - 1_000,
    expiresAtMs: now + 60_000,
    tokenId: sixbitFromBytes(randomBytes(9), 0, 9),
    terms: 'direct',
    ...more,
  }
  return sealClaimToken(token, rig.deps.keyrings.claimToken)
}

async function send(userId: string, token: string, key: string): Promise<Answer> {
  const response = await rig.app.request('/internal/v1/claims', {
    method: 'POST',
    headers: { 'Tidegate-Assertion': rig.assertion(userId), 'Content-Type': 'application/json' },
    body: JSON.stringify({ claim_token: token, idempotency_key: key }),
  })
  return answerOf(response)
}

const claim = (made: Published, userId: string, key = `key-${userId}`) =>
  send(userId, tokenFor(made.id, userId), key)
const inventory = async (made: Published) =>
  (await rig.get('operator:olga', `/admin/v1/campaigns/${made.id}/inventory`)).body

describe('a direct campaign', () => {
  it('issues at once, in one transaction with ledger and event, and its user finds the claim (IS13)', async () => {
    const made = await open()
    const answer = await claim(made, 'ann')
    assert.equal(answer.status, 200, answer.text)
    const { request_id, coupon_id, replayed } = answer.body
    assert.equal(replayed, false)
    const [row] = await rig.deps.db.admin.sql`
      SELECT c.status, c.coupon_id, l.actor, o.type FROM claims c JOIN coupons k USING (user_id, request_id)
      JOIN ledger l USING (user_id, request_id) JOIN outbox o USING (user_id, request_id)
      WHERE c.request_id = ${request_id as string}`
    assert.deepEqual({ ...row }, { status: 'DELIVERED', coupon_id, actor: 'direct', type: 'claim.delivered' })
    const stock = await inventory(made)
    assert.deepEqual([stock['issued'], stock['unallocated'], stock['sum']], [1, 4, 5])
  })

  it('gives the same coupon for the same key, and refuses the key for another device, and a spent token', async () => {
    const made = await open({ per_user_limit: 2 })
    const first = await claim(made, 'bob')
    const again = await claim(made, 'bob')
    assert.deepEqual([again.body['coupon_id'], again.body['replayed']], [first.body['coupon_id'], true])
    const other = await send('bob', tokenFor(made.id, 'bob', { deviceHash: 'other' }), 'key-bob')
    assert.equal(other.body['code'], 'IDEMPOTENCY_MISMATCH')
    const token = tokenFor(made.id, 'bob')
    assert.equal((await send('bob', token, 'second')).status, 200)
    assert.equal((await send('bob', token, 'third')).body['code'], 'TOKEN_USED')
    assert.equal((await claim(made, 'bob', 'fourth')).body['code'], 'LIMIT_REACHED')
  })

  it('gives its quota and not one more when a hundred come at once, each user one (case-A2, case-A8)', async () => {
    const made = await open({ quota: 20 })
    const users = Array.from({ length: 50 }, (_, i) => `racer-${i}`)
    const answers = await Promise.all(
      users.flatMap((user) => [claim(made, user, 'one'), claim(made, user, 'two')]),
    )
    const fresh = answers.filter(({ body }) => body['replayed'] === false)
    assert.equal(fresh.length, 20)
    assert.equal(new Set(fresh.map(({ body }) => body['coupon_id'])).size, 20)
    for (const { body } of answers)
      assert.ok(
        body['replayed'] === false || ['SOLD_OUT', 'LIMIT_REACHED'].includes(body['code'] as string),
        JSON.stringify(body),
      )
    const stock = await inventory(made)
    assert.deepEqual([stock['issued'], stock['unallocated'], stock['sum']], [20, 0, 20])
  })

  it('a key sent many times at once is one acceptance (case-B3)', async () => {
    const made = await open({ per_user_limit: 3 })
    const token = tokenFor(made.id, 'cleo')
    const answers = await Promise.all(Array.from({ length: 8 }, () => send('cleo', token, 'same')))
    assert.equal(new Set(answers.map(({ body }) => body['coupon_id'])).size, 1, JSON.stringify(answers))
    assert.equal((await inventory(made))['issued'], 1)
  })

  it('is closed by its state and window, with the codes of the gate, and replays in spite of them', async () => {
    const made = await open()
    await claim(made, 'dan')
    await made.command('operator:olga', 'pause')
    assert.equal((await claim(made, 'eve')).body['code'], 'PAUSED')
    assert.equal((await claim(made, 'dan')).body['replayed'], true)
    await made.command('operator:olga', 'end')
    assert.equal((await claim(made, 'eve')).body['code'], 'ENDED')
  })

  it('listens to the edge only, and only with a genuine token for this user and these terms', async () => {
    const made = await open()
    const token = tokenFor(made.id, 'fay')
    const byLogin = await rig.post(':fay', '/internal/v1/claims', {
      claim_token: token,
      idempotency_key: 'k',
    })
    assert.equal(byLogin.status, 401)
    assert.equal((await send('mallory', token, 'k')).body['code'], 'TOKEN_INVALID')
    const stream = tokenFor(made.id, 'fay', { terms: 'stream' })
    assert.equal((await send('fay', stream, 'k')).body['code'], 'TOKEN_INVALID')
    assert.equal((await send('fay', `${token}x`, 'k')).body['code'], 'TOKEN_INVALID')
  })

  it('is small, of the plain mode, and holds nobody for review: anything else is refused when it is made', async () => {
    for (const wrong of [{ quota: 10_001 }, { mode: 'ballot' }, { pace: { per_second: 5, burst: 5 } }])
      await assert.rejects(open(wrong))
  })
})
