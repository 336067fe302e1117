import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Stack, startStack } from '../../stack/stack.ts'
import { temporaryFolder } from '../../stack/testing.ts'
import { postgresOnly } from './designs/postgresOnly.ts'
import { redisThenPublish } from './designs/redisThenPublish.ts'
import { Peer } from './peer.ts'
import { runRound } from './round.ts'

/** The comparison's short form, on real processes: one design that keeps its word, one that can't. */

let stack: Stack
before(async () => {
  stack = await startStack({ dir: join(temporaryFolder('peers'), 'stack'), only: ['postgres', 'redis'] })
})
after(() => stack.stop())

const shape = { users: 240, quota: 160, perSecond: 240, fromMs: 500, toMs: 600, patienceMs: 15_000 }

test('a killed front of the Postgres-only design costs nobody a coupon', async () => {
  const peer = new Peer(postgresOnly, stack)
  try {
    const round = await runRound(peer, 'service', Math.random, { ...shape, fromMs: 100, toMs: 300 })
    const { oversold, lost, doubled, stranded, coupons, promised } = round
    assert.deepEqual({ oversold, lost, doubled, stranded }, { oversold: 0, lost: 0, doubled: 0, stranded: 0 })
    assert.equal(coupons, shape.quota)
    assert.ok(promised > 0)
  } finally {
    await peer.stop()
  }
})

test('a power cut at Redis makes a design without a log break its word, and the auditor sees it', async () => {
  const peer = new Peer(redisThenPublish, stack)
  try {
    // On a machine that stalls, the cut may come before anybody was promised anything: then again.
    let round = await runRound(peer, 'store', Math.random, shape)
    const broken = () => round.oversold + round.lost + round.doubled
    for (let more = 0; more < 3 && broken() === 0; more++)
      round = await runRound(peer, 'store', Math.random, shape)
    assert.ok(broken() > 0, JSON.stringify(round))
  } finally {
    await peer.stop()
  }
})
