import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { claim } from '../../lua/claim.ts'
import { startDrain } from '../claim/drain.ts'
import { claimArgs } from '../claim/testing.ts'
import type { Running } from '../deps.ts'
import { startGuardian } from '../guardian/guardian.ts'
import { makeRig, type Rig } from '../rig.test.ts'
import { startStockKeeper } from './keeper.ts'
import { assertTakesLess, publishedCampaign, readBalance, until } from './testing.ts'

/** The guardian and the stock's keeper side by side, as in the core's process. */

let rig: Rig
let parts: Running[]
before(async () => {
  rig = await makeRig()
  parts = [startDrain(rig.deps), startGuardian(rig.deps), startStockKeeper(rig.deps)]
})
after(async () => {
  await Promise.all(parts.map((part) => part.stop()))
  await rig.close()
})

let users = 0
async function decisions(campaignId: string, bucket: number, count: number) {
  const people = Array.from({ length: count }, () => claimArgs(`final-${++users}`))
  const { verdicts } = await claim(rig.deps.runner, { campaignId, bucket }, people)
  return verdicts.map(({ decision }) => decision)
}

test('everybody in one bucket of eight buys the whole quota, hears BUSY meanwhile, SOLD_OUT at the end, and buys again after an increase', async () => {
  const quota = 80
  const made = await publishedCampaign(rig, { quota, bucket_count: 8 })
  let accepted = 0
  const heard = new Set<string>()
  await until(
    'it is sold out',
    async () => {
      const said = await decisions(made.id, 3, 20)
      accepted += said.filter((decision) => decision === 'ACCEPTED').length
      for (const decision of said) {
        heard.add(decision)
        if (decision === 'SOLD_OUT')
          assert.equal(accepted, quota, 'nobody hears SOLD_OUT while there is stock')
      }
      return said.includes('SOLD_OUT')
    },
    60_000,
  )
  assert.deepEqual(heard, new Set(['BUSY', 'ACCEPTED', 'SOLD_OUT']))
  let increased = 0
  await assertTakesLess(1_000, async () => {
    const more = await made.command('approver:anna', 'increases', { amount: 8, reason: 'many came' })
    const answeredAt = performance.now()
    assert.equal(more.status, 200, more.text)
    assert.deepEqual(await decisions(made.id, 3, 1), ['ACCEPTED'])
    increased += 8
    accepted += 1
    return performance.now() - answeredAt
  })
  await until('the rest comes too', async () => {
    accepted += (await decisions(made.id, 3, 5)).filter((decision) => decision === 'ACCEPTED').length
    return accepted === quota + increased
  })
  const balance = await readBalance(rig.deps, made.id)
  assert.deepEqual([balance.remaining, balance.accepted, balance.quota], [0, accepted, quota + increased])
})
