import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, it } from 'node:test'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { inspect } from '../../lua/stock.ts'
import { until } from '../../stack/process.ts'
import { startDrain } from '../claim/drain.ts'
import { claimFor, forgeEntry, type Ground, openCampaign, openGround, people } from '../claim/testing.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { registerDeadLetterRoutes } from './deadLetterRoutes.ts'

let rig: Rig
let ground: Ground
before(async () => {
  rig = await makeRig(undefined, (app, deps) => registerDeadLetterRoutes(app, deps, () => undefined))
  ground = await openGround(rig.env['DATABASE_URL']!, rig.env['REDIS_URL']!)
})
after(async () => {
  await ground.close()
  await rig.close()
})

async function drained(bucket: Bucket): Promise<void> {
  const drain = startDrain(ground.deps, { consumer: randomUUID() })
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 20_000)
  await drain.stop()
}

interface Letter {
  id: string
  cause: string
  fields: string[]
  position: number
}

async function lettersOf(bucket: Bucket, state = 'OPEN'): Promise<Letter[]> {
  const query = `campaign_id=${bucket.campaignId}&state=${state}`
  const { body } = await rig.get('support:sue', `/admin/v1/dead-letters?${query}`)
  return body['data'] as Letter[]
}

const close = (id: string, verb: string, key: string = randomUUID()) =>
  rig.post('operator:olga', `/admin/v1/dead-letters/${id}/${verb}`, {}, { 'Idempotency-Key': key })

it('a poisoned claim in the middle of a batch of 64 is set aside with its bytes, the rest flows, and replay issues it once its cause is gone (IS7)', async () => {
  const bucket = await openCampaign(ground, { quota: 100 })
  const users = people(64, 'poison')
  const bad = users[31]!
  // Postgres will not take this one user's coupon, whatever we do.
  await ground.sql.unsafe(
    `ALTER TABLE coupons ADD CONSTRAINT poison CHECK (user_id <> '${bad}' OR campaign_id <> '${bucket.campaignId}')`,
  )
  const accepted = await claimFor(ground, bucket, users)
  await drained(bucket)
  const count = async () =>
    (await ground.sql`SELECT 1 FROM coupons WHERE campaign_id = ${bucket.campaignId}`).length
  assert.equal(await count(), 63)
  const [letter, ...others] = await lettersOf(bucket)
  assert.deepEqual([letter?.position, letter?.fields[2], others.length], [31, bad, 0])
  assert.match(letter!.cause, /23514/)
  assert.equal((await inspect(ground.deps.runner, bucket, bad))?.[0]?.state, 'V')

  const tooEarly = await close(letter!.id, 'replay')
  assert.deepEqual([tooEarly.status, tooEarly.body['code']], [409, 'CONFLICT'])
  const discarded = await close(letter!.id, 'discard')
  assert.deepEqual([discarded.status, discarded.body['code']], [409, 'CONFLICT'])

  await ground.sql`ALTER TABLE coupons DROP CONSTRAINT poison`
  const key = randomUUID()
  const twice = await Promise.all([close(letter!.id, 'replay', key), close(letter!.id, 'replay', key)])
  const answers = [...twice, await close(letter!.id, 'replay')] as const
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 409],
  )
  assert.deepEqual(answers[0].body['claims'], [
    { user_id: bad, request_id: accepted.find(({ userId }) => userId === bad)!.requestId },
  ])
  assert.equal(await count(), 64)
  assert.equal((await inspect(ground.deps.runner, bucket, bad))?.[0]?.state, 'D')
  assert.equal((await lettersOf(bucket)).length, 0)
  assert.equal((await lettersOf(bucket, 'REPLAYED')).length, 1)
})

it('a letter in which nothing can be read is put away by discard, on record', async () => {
  const bucket = await openCampaign(ground, { quota: 5 })
  await forgeEntry(ground, bucket, [['someone', 'garbage']])
  await drained(bucket)
  const [letter] = await lettersOf(bucket)
  const replayed = await close(letter!.id, 'replay')
  assert.equal(replayed.status, 409)
  assert.equal((await close(letter!.id, 'discard')).body['state'], 'DISCARDED')
  const [row] = await ground.sql`
    SELECT count(*)::int AS n FROM audit_log WHERE target = ${letter!.id} AND action = 'dead_letter.discard'
      AND outcome = 'done'`
  assert.equal(row!['n'], 1)
})
