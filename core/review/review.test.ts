import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, it } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { type Bucket, logKey } from '../../lua/keys.ts'
import { inspect, snapshot } from '../../lua/stock.ts'
import { until } from '../../stack/process.ts'
import { startCompensator } from '../claim/compensate.ts'
import { startDrain } from '../claim/drain.ts'
import { readClaim } from '../claim/status.ts'
import { type CampaignSpec, claimArgs, type Ground, openCampaign, openGround } from '../claim/testing.ts'
import type { Client } from '../ops/client.ts'
import { reviews } from '../ops/reviews.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { makeRound } from './keeper.ts'
import { registerReviewRoutes } from './routes.ts'

let rig: Rig
let ground: Ground
before(async () => {
  rig = await makeRig(undefined, (app, deps) => registerReviewRoutes(app, deps, () => undefined))
  ground = await openGround(rig.env['DATABASE_URL']!, rig.env['REDIS_URL']!)
})
after(async () => {
  await ground.close()
  await rig.close()
})

async function drained(bucket: Bucket): Promise<void> {
  const drain = startDrain(ground.deps, { consumer: randomUUID() })
  await until(async () => (await ground.redis.xlen(logKey(bucket))) === 0, 'not drained', 10_000)
  await drain.stop()
}

/** One user's claim, accepted by the gate to be held, and drained. */
async function hold(
  userId: string,
  spec: Partial<CampaignSpec> = {},
): Promise<{ bucket: Bucket; requestId: string }> {
  const bucket = await openCampaign(ground, { quota: 5, ...spec })
  return { bucket, requestId: await holdIn(bucket, userId) }
}

async function holdIn(bucket: Bucket, userId: string): Promise<string> {
  const args = claimArgs(userId)
  const { verdicts } = await claim(ground.deps.runner, bucket, [
    { ...args, packed: `${args.packed.slice(0, -1)}V` },
  ])
  await drained(bucket)
  return verdicts[0]!.requestId!
}

const decide = (who: string, requestId: string, verdict: string, key: string = randomUUID()) =>
  rig.post(
    who,
    `/admin/v1/reviews/${requestId}/${verdict}`,
    { reason: 'looked at' },
    { 'Idempotency-Key': key },
  )

const letter = async (bucket: Bucket, userId: string) =>
  (await inspect(ground.deps.runner, bucket, userId))?.[0]?.state
const couponsOf = async (bucket: Bucket) =>
  (await ground.sql`SELECT coupon_id FROM coupons WHERE campaign_id = ${bucket.campaignId}`).length

describe('a claim held for review', () => {
  it('is REVIEW in the ledger and for its user, without coupon or compensation, and stands in the queue (CL5)', async () => {
    const { bucket, requestId } = await hold('ann')
    assert.equal((await readClaim(ground.deps, 'ann', requestId)).status, 'REVIEW')
    assert.equal(await couponsOf(bucket), 0)
    const queue = await rig.get('support:sue', `/admin/v1/reviews?campaign_id=${bucket.campaignId}`)
    const [found] = queue.body['data'] as Record<string, unknown>[]
    assert.deepEqual(
      [found?.['request_id'], found?.['user_id'], found?.['cause'], found?.['due_at']],
      [requestId, 'ann', 'held', null],
    )
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.accepted, gate?.settled, gate?.entries], [1, 0, 0])
  })

  it('becomes a coupon when an operator issues it, once, with ledger, event and audit, and Redis knows', async () => {
    const { bucket, requestId } = await hold('bob')
    const key = randomUUID()
    const answers = await Promise.all([
      decide('operator:olga', requestId, 'issue', key),
      decide('operator:olga', requestId, 'issue', key),
    ])
    assert.deepEqual(
      answers.map(({ status, body }) => [status, body['status']]),
      [
        [200, 'DELIVERED'],
        [200, 'DELIVERED'],
      ],
    )
    assert.equal(answers[0].body['coupon_id'], answers[1].body['coupon_id'])
    const again = await decide('operator:olga', requestId, 'reject')
    assert.deepEqual([again.status, again.body['code']], [409, 'CONFLICT'])
    assert.equal(await couponsOf(bucket), 1)
    assert.equal(await letter(bucket, 'bob'), 'D')
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.accepted, gate?.settled], [1, 1])
    const [rows] = await ground.sql`
      SELECT (SELECT issued FROM campaign_stock WHERE campaign_id = ${bucket.campaignId})::int AS issued,
        (SELECT array_agg(kind || ' ' || actor ORDER BY at, kind) FROM ledger WHERE request_id = ${requestId}) AS ledger,
        (SELECT count(*) FROM outbox WHERE request_id = ${requestId} AND type = 'claim.delivered')::int AS events,
        (SELECT count(*) FROM audit_log WHERE target = ${requestId} AND action = 'review.issue' AND outcome = 'done')::int
          AS audit`
    assert.deepEqual(
      { ...rows },
      { issued: 1, ledger: ['claim.held drain', 'coupon.issued olga'], events: 1, audit: 1 },
    )
    const [review] = await ground.sql`SELECT state FROM reviews WHERE request_id = ${requestId}`
    assert.equal(review!['state'], 'CLOSED')
  })

  it('gives its stock back once when an operator rejects it, and its user may claim again (IS6)', async () => {
    const { bucket, requestId } = await hold('cleo', { quota: 1 })
    assert.equal((await decide('approver:abe', requestId, 'reject')).body['reason'], 'REJECTED_BY_OPERATOR')
    const compensator = startCompensator(ground.deps)
    await until(async () => (await letter(bucket, 'cleo')) === 'R', 'the stock was not returned', 10_000)
    await compensator.stop()
    const gate = await snapshot(ground.deps.runner, bucket)
    assert.deepEqual([gate?.remaining, gate?.returned, gate?.settled], [1, 1, 1])
    assert.equal(typeof (await holdIn(bucket, 'cleo')), 'string')
  })

  it('is not issued over the quota or a user’s limit, and retry rejects it for that reason', async () => {
    const { bucket, requestId } = await hold('dan', { quota: 1, gateStock: 2 })
    const second = await holdIn(bucket, 'eve')
    assert.equal((await decide('operator:olga', requestId, 'issue')).status, 200)
    const refused = await decide('operator:olga', second, 'issue')
    assert.deepEqual([refused.status, refused.body['reason']], [409, 'REJECTED_QUOTA'])
    const retried = await decide('operator:olga', second, 'retry')
    assert.deepEqual([retried.body['status'], retried.body['reason']], ['REJECTED', 'REJECTED_QUOTA'])
    assert.equal(await couponsOf(bucket), 1)
  })

  it('is decided by the campaign’s timer when nobody does, and not before', async () => {
    const rules = { review: { after_s: 60, verdict: 'issue' as const } }
    const { bucket, requestId } = await hold('fay', { rules })
    const round = (inMs: number) =>
      makeRound({ ...ground.deps, clock: () => Date.now() + inMs })().then(() =>
        readClaim(ground.deps, 'fay', requestId),
      )
    assert.equal((await round(0)).status, 'REVIEW')
    assert.equal((await round(61_000)).status, 'DELIVERED')
    assert.equal(await letter(bucket, 'fay'), 'D')
  })

  it('is told to Redis by the next round when a crash came between decision and mark', async () => {
    const { bucket, requestId } = await hold('gus')
    await ground.sql`UPDATE reviews SET due_at = now(), due_verdict = 'reject' WHERE request_id = ${requestId}`
    const deaf = { ...ground.deps, runner: { run: () => Promise.reject(new Error('gone')) } }
    await assert.rejects(makeRound(deaf)(), /gone/)
    assert.equal(await letter(bucket, 'gus'), 'V')
    await makeRound(ground.deps)()
    assert.equal(await letter(bucket, 'gus'), 'X')
  })

  it('is decided by operators only; a refused attempt is recorded (GV4, case-L14)', async () => {
    const { requestId } = await hold('hal')
    assert.equal((await decide('support:sue', requestId, 'issue')).status, 403)
    assert.equal((await decide(':hal', requestId, 'issue')).status, 403)
    const [row] = await ground.sql`
      SELECT count(*)::int AS n FROM audit_log WHERE target = ${requestId} AND outcome = 'refused'`
    assert.equal(row!['n'], 2)
    const unknown = '0190a000-0000-7000-8000-000000000000'
    assert.equal((await decide('operator:olga', unknown, 'issue')).status, 404)
  })
})

it('a compensation that Redis contradicts is asked for again on retry', async () => {
  const { bucket, requestId } = await hold('ida')
  await decide('operator:olga', requestId, 'reject')
  await ground.sql`UPDATE compensations SET state = 'REVIEW' WHERE request_id = ${requestId}`
  const queue = await rig.get('auditor:al', `/admin/v1/reviews?campaign_id=${bucket.campaignId}`)
  assert.deepEqual(
    (queue.body['data'] as { kind: string; request_id: string }[]).map((one) => [one.kind, one.request_id]),
    [['compensation', requestId]],
  )
  assert.equal((await decide('operator:olga', requestId, 'retry')).body['compensation'], 'PENDING')
  const [row] = await ground.sql`SELECT state FROM compensations WHERE request_id = ${requestId}`
  assert.equal(row!['state'], 'PENDING')
})

it('the queue is worked through the operator’s CLI', async () => {
  const { requestId } = await hold('jo')
  const answered: unknown[] = []
  const client = {
    read: async (path: string) => (await rig.get('operator:olga', path)).body,
    post: async (_role: string, path: string, body: unknown) => {
      const answer = await rig.post('operator:olga', path, body, { 'Idempotency-Key': randomUUID() })
      answered.push(answer.status)
      return answer.body
    },
  } as unknown as Client
  const call = { queue: 'reviews' as const, query: '?limit=200', reason: 'known customer' }
  const list = (await reviews(client, { ...call, verb: undefined, id: undefined })) as {
    data: { request_id: string }[]
  }
  assert.ok(list.data.some(({ request_id }) => request_id === requestId))
  const done = (await reviews(client, { ...call, verb: 'issue', id: requestId })) as { status: string }
  assert.deepEqual([answered, done.status], [[200], 'DELIVERED'])
  await assert.rejects(reviews(client, { ...call, verb: 'approve', id: requestId }), /reviews list/)
})
