import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type Answer, World } from './world.ts'

const token = 'a-token-of-sixteen-or-more'
let world: World
let closed: World
before(async () => {
  ;[world, closed] = await Promise.all([World.start({ bindings: { METRICS_TOKEN: token } }), World.start()])
})
after(() => Promise.all([world.stop(), closed.stop()]))

const read = (of: World, shown?: string, path = '/_gate/metrics') =>
  of.call(path, shown === undefined ? {} : { headers: { Authorization: `Bearer ${shown}` } })

/** Samples by name and labels; every line is a comment or a sample. */
function samplesOf({ text }: Answer): Map<string, number> {
  const lines = text.split('\n').slice(0, -1)
  return new Map(
    lines
      .filter((line) => !/^# (HELP|TYPE) [a-z_]+ /.test(line))
      .map((line) => {
        const [, name, value] = /^([a-z_]+(?:\{[^}]*\})?) ([0-9.]+)$/.exec(line)!
        return [name!, Number(value)]
      }),
  )
}

test('the summary counts claims by outcome and by who refused, calls with their claims, circuits and age', async () => {
  const campaign = await world.campaign({ quota: 2 })
  for (const user of ['ann', 'bob', 'cid'])
    await world.claim(campaign.id, { token: await world.token(campaign, user), key: user })
  await world.claim(campaign.id, { token: 'nonsense', key: 'k' })
  const answer = await read(world, token)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('Content-Type'), 'text/plain; version=0.0.4; charset=utf-8')
  assert.equal(answer.headers.get('Cache-Control'), 'no-store')
  const samples = samplesOf(answer)
  assert.equal(samples.get('tidegate_edge_claims_total{outcome="ACCEPTED",by="arbiter"}'), 2)
  assert.equal(samples.get('tidegate_edge_claims_total{outcome="SOLD_OUT",by="arbiter"}'), 1)
  assert.equal(samples.get('tidegate_edge_claims_total{outcome="TOKEN_INVALID",by="gate"}'), 1)
  assert.equal(samples.get('tidegate_edge_arbitration_batch_claims_sum{kind="claim"}'), 3)
  assert.equal(samples.get('tidegate_edge_arbitration_batch_claims_count{kind="claim"}'), 3)
  assert.equal(samples.get('tidegate_edge_arbitration_batch_claims_count{kind="ballot"}'), 0)
  assert.equal(samples.get('tidegate_edge_circuit_open{to="redis"}'), 0)
  assert.equal(samples.get('tidegate_edge_circuit_open{to="core"}'), 0)
  assert.ok(samples.get('tidegate_edge_isolate_age_seconds')! > 0)
  // The isolate's name is random, so it may have any letters.
  assert.doesNotMatch(answer.text.replace(/isolate="[^"]*"/, ''), /ann|bob|c1|k1/)
})

test('only METRICS_TOKEN reads the summary; where none is set there is no such page, whatever is shown', async () => {
  for (const shown of [undefined, '', 'x', token.slice(1), `${token}x`]) {
    const answer = await read(world, shown)
    assert.deepEqual([answer.status, answer.body.code], [401, 'UNAUTHENTICATED'], shown)
  }
  for (const shown of [undefined, '', 'undefined', token]) {
    const answer = await read(closed, shown)
    assert.deepEqual([answer.status, answer.body.code], [404, 'NOT_FOUND'], shown)
    const post = await closed.call('/_gate/metrics', { method: 'POST' })
    assert.deepEqual([post.status, post.body.code], [404, 'NOT_FOUND'])
  }
})

test('a claim has Server-Timing for who shows the token as Gate-Token, and for nobody else', async () => {
  const campaign = await world.campaign()
  const timing = async (shown: string | undefined, of = world, at = campaign, user = `u-${shown}`) => {
    const headers = shown === undefined ? {} : { 'Gate-Token': shown }
    const answer = await of.claim(at.id, { token: await of.token(at, user), key: 'k', headers })
    assert.equal(answer.status, 202)
    return answer.headers.get('Server-Timing')
  }
  assert.match((await timing(token))!, /^total;dur=\d+, arbiter;dur=\d+$/)
  for (const shown of [undefined, 'x']) assert.equal(await timing(shown), null)
  assert.equal(await timing(token, closed, await closed.campaign()), null)
  const refused = await world.claim(campaign.id, { token: 'x', key: 'k', headers: { 'Gate-Token': token } })
  assert.equal(refused.status, 401)
  assert.match(refused.headers.get('Server-Timing')!, /^total;dur=\d+$/)
})
