import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { it } from 'node:test'
import { fromLines, type HistoryEvent } from '../audit/history.ts'
import { drills } from './all.ts'
import { pauseUnderLoad } from './campaign.ts'
import type { Drill } from './drill.ts'
import { edgeKilledAfterAccept } from './edge.ts'
import { runDrill } from './runDrill.ts'

/** A short form of `npm run drill -- all`: two drills, and one that must fail. */

const home = join(import.meta.dirname, '..', '..', '.tidegate')
mkdirSync(home, { recursive: true, mode: 0o711 })

/** A drill gives itself up after 2 minutes, beside what its stack takes to start and to stop. */
const patience = { timeout: 300_000 }

const historyOf = (name: string): HistoryEvent[] =>
  fromLines(readFileSync(join(home, 'drills', `${name}.jsonl`), 'utf8'))

for (const drill of [edgeKilledAfterAccept, pauseUnderLoad])
  it(`drill ${drill.name}: ${drill.about}`, patience, async () => {
    const result = await runDrill(drill, home)
    assert.deepEqual(result.violations, [])
    assert.ok(result.passed)
    const events = historyOf(drill.name)
    assert.equal(events[0]?.type, 'campaign')
    assert.equal(events.filter(({ type }) => type === 'operation').length, result.figures['operations'])
  })

/** One coupon taken away, another user's claim undone, and a record of Redis forgotten. */
const spoiled: Drill = {
  name: 'spoiled',
  about: 'what stands is spoiled after everyone was told',
  async run(world) {
    await world.open(30, { quota: 20 })
    const flood = world.startFlood({ everyMs: 0 })
    await flood.finish()
    await world.untilAtRest()
    const [first, second, third] = flood.told
    await world.sql`DELETE FROM coupons WHERE request_id = ${first!.requestId}::uuid`
    await world.sql`UPDATE claims SET status = 'PROCESSING', coupon_id = NULL WHERE request_id = ${second!.requestId}::uuid`
    await world.withRedis(async (redis) => {
      await redis.hdel(`tg:{${world.campaignId}:0}:users`, third!.userId)
    })
    return {}
  },
}

it('a drill whose stores were spoiled behind its back fails, by both auditors', patience, async () => {
  const { passed, violations } = await runDrill(spoiled, home)
  assert.ok(!passed)
  for (const expected of [
    /1: the counter says 20, there are 19 coupons/,
    /5: 2 of 20 acceptances that clients saw are not settled/,
    /5: 1 acceptances that were told have no end/,
    /4: Redis has no record of 1 delivered claims/,
  ])
    assert.ok(
      violations.some((violation) => expected.test(violation)),
      `${expected} is not in:\n${violations.join('\n')}`,
    )
})

it('every drill has a name of its own, and the drill of each fault of A4 §15.3 on the claim path is there', () => {
  const names = drills.map(({ name }) => name)
  assert.equal(new Set(names).size, names.length)
  for (const name of [
    'redis-sentinel-promotion',
    'edge-killed-after-accept',
    'log-twice-late-gone',
    'postgres-commit-lost',
    'compensator-restarted',
    'pause-under-load',
    'identity-off',
  ])
    assert.ok(names.includes(name), name)
  assert.ok(existsSync(join(import.meta.dirname, 'faults', 'clockStep.c')))
})
