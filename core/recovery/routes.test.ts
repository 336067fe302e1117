import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, test } from 'node:test'
import { gateKey } from '../../lua/keys.ts'
import { snapshot } from '../../lua/stock.ts'
import { startHttp } from '../http/server.ts'
import { runOps } from '../ops/run.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { publishedCampaign } from '../stock/testing.ts'
import { registerRecoveryRoutes } from './routes.ts'

let rig: Rig
const key = () => ({ 'Idempotency-Key': randomUUID() })
before(async () => {
  const view = () => [
    {
      bucket: { campaignId: 'c', bucket: 0, primedAtMs: 0, ballot: false, epoch: 1, elsewhere: 0 },
      withheld: 'gate_missing',
      leaseUntilMs: undefined,
      detail: 'the gate is gone',
    },
  ]
  const guardian = { view } as unknown as Parameters<typeof registerRecoveryRoutes>[2]
  rig = await makeRig(undefined, (app, deps) => registerRecoveryRoutes(app, deps, guardian))
})
after(() => rig.close())

test('an operator sees what a rebuild would do, has it done with a reason, and nobody else may (IS10)', async () => {
  const { id } = await publishedCampaign(rig, { quota: 8, bucket_count: 2 })
  await rig.deps.redis.del(gateKey({ campaignId: id, bucket: 1 }))
  const path = `/admin/v1/campaigns/${id}/rebuild`
  const plan = await rig.get('operator:olga', path)
  const buckets = plan.body['buckets'] as { redis: object | null; ledger: { remaining: number } }[]
  assert.deepEqual(
    buckets.map(({ redis, ledger }) => [redis !== null, ledger.remaining]),
    [
      [true, 4],
      [false, 4],
    ],
  )
  assert.equal((await rig.post('finance:fay', path, { reason: 'lost' }, key())).status, 403)
  const done = await rig.post('operator:olga', path, { reason: 'lost' }, key())
  assert.equal(done.status, 200, done.text)
  const outcomes = (done.body['buckets'] as { outcome: string }[]).map(({ outcome }) => outcome)
  assert.deepEqual(outcomes, ['rebuilt', 'rebuilt'])
  assert.equal((await snapshot(rig.deps.runner, { campaignId: id, bucket: 1 }))?.remaining, 4)
})

test('the CLI shows a rebuild, does it, and says why a bucket gets no lease', async () => {
  const { id } = await publishedCampaign(rig, { quota: 8 })
  await rig.deps.redis.del(gateKey({ campaignId: id, bucket: 0 }))
  const http = await startHttp(rig.app, '127.0.0.1', 0)
  const lines: string[] = []
  const ops = async (...words: string[]) => {
    const token = await rig.login('operator:olga')
    const io = { env: {}, home: '/nowhere', readStdin: () => '', err: (line: string) => lines.push(line) }
    return runOps([...words, '--core', http.url, '--token', token], {
      ...io,
      out: (line) => lines.push(line),
    })
  }
  try {
    assert.equal(await ops('rebuild', '--campaign', id, '--dry-run'), 0)
    assert.match(lines.join('\n'), /no gate\n.*remaining=8.*\nThe ledger accounts for the whole quota/)
    assert.equal(await ops('rebuild', '--campaign', id), 2)
    assert.equal(await ops('rebuild', '--campaign', id, '--reason', 'lost'), 0)
    assert.match(lines.at(-1)!, /^bucket 0: rebuilt .*remaining=8/)
    assert.equal(await ops('leases'), 0)
    assert.match(lines.at(-1)!, /rebuilt from the ledger/)
  } finally {
    await http.stop(100)
  }
})
