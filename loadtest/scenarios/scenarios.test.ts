import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { it } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { ScenarioRecord } from '../record/record.ts'
import { openingFlood } from './matrix/openingFlood.ts'
import { redisColdStart } from './matrix/redisColdStart.ts'
import { runScenario } from './runScenario.ts'
import type { Scenario } from './scenario.ts'

/** Two scenarios in their shortest form, on the whole system. How quick it is, is not for a shared machine to say. */

const home = fileURLToPath(new URL('../../.tidegate', import.meta.url))
mkdirSync(home, { recursive: true, mode: 0o711 })

/** A whole system and all its people: on a slow machine that takes minutes. */
const patience = { timeout: 400_000 }

const run = async (scenario: Scenario) =>
  (
    await runScenario(scenario, {
      home,
      seconds: 4,
      perSecond: 150,
      seed: 3,
      rehearsalSeconds: 0.3,
      progress: () => undefined,
    })
  ).record

/** What was missed, but for times in ms and costs that depend on the machine's other work. */
const missed = ({ criteria }: ScenarioRecord) =>
  criteria
    .filter(({ name, passed }) => !passed && !/p99|≤ .* ms$/.test(name))
    .map(({ name, found }) => `${name}: ${found}`)

it(
  'Redis lost with all its data under load: nobody accepted meanwhile, no outcome left unknown, all told',
  patience,
  async () => {
    const record = await run(redisColdStart)
    assert.deepEqual(missed(record), [])
    assert.deepEqual(record.violations, [])
    const { series, events, every_ms } = record.timeline
    assert.equal(events.length, 3)
    const lengths = new Set(Object.values(series).map((values) => values.length))
    assert.equal(lengths.size, 1, 'every series has one value a sample')
    // While it was away nothing could be read, and nobody was accepted: by the last look before its return, when answers
    // that were under way at its loss have long arrived.
    const away = Math.floor((events[0]!.at_ms + 1_750) / every_ms) - 1
    assert.equal(series['remaining']![away], null)
    assert.equal(series['accepted']![away], 0)
    assert.ok(record.figures!['back_after_ms']! > 0)
    const [offered, answered] = record.funnel.map(({ count }) => count)
    assert.ok(offered! > 0 && answered! <= offered!)
  },
)

it(
  'an opening whose coupon is stolen and whose answer is falsified fails, and says by what',
  patience,
  async () => {
    const record = await run({
      ...openingFlood,
      async run(world, load) {
        await openingFlood.run(world, load)
        const [crowd] = world.crowds
        const stolen = crowd!.accepted[0]!
        const { rowCount } = await waitForCoupon(world, stolen.requestId)
        assert.equal(rowCount, 1)
        // As if the client had been told something else at first.
        for (const visitor of crowd!.visitors)
          if (visitor.acceptance !== undefined)
            visitor.acceptance = { ...visitor.acceptance, body: `${visitor.acceptance.body} ` }
      },
    })
    assert.equal(record.passed, false)
    const all = record.violations.join('\n')
    assert.match(all, /1: the counter says \d+, there are \d+ coupons/)
    assert.match(all, /5: 1 of \d+ acceptances that clients saw are not settled/)
    assert.match(all, /9: /)
    assert.match(all, /4: \d+ repeated claims had another answer/)
    assert.equal(record.codes['NOT_STARTED'] === undefined || record.codes['NOT_STARTED'] > 0, true)
    for (const code of ['ACCEPTED', 'REPLAYED', 'UNAUTHENTICATED', 'TOKEN_INVALID', 'TOKEN_EXPIRED'])
      assert.ok(record.codes[code]! > 0, code)
  },
)

async function waitForCoupon(world: Parameters<Scenario['run']>[0], requestId: string) {
  const end = performance.now() + 60_000
  for (;;) {
    const rows = await world.sql`DELETE FROM coupons WHERE request_id = ${requestId} RETURNING coupon_id`
    if (rows.length > 0 || performance.now() > end) return { rowCount: rows.length }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
