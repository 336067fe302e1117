import { until } from '../../stack/process.ts'
import type { Drill } from './drill.ts'

/** An operator's hand while people claim. */

export const pauseUnderLoad: Drill = {
  name: 'pause-under-load',
  about:
    'paused under load: nothing is accepted after the last gate closed, and what was accepted is delivered',
  async run(world) {
    await world.open(500, { quota: 400 })
    // Slow enough that seconds pass before the coupons are gone: the pause must find some.
    const flood = world.startFlood({ everyMs: 200 })
    await world.untilTold(50)
    const closedAtMs = await world.command('pause')
    await until(() => (flood.codes['PAUSED'] ?? 0) > 30, 'nobody hears PAUSED', 30_000)
    const late = flood.told.filter(({ acceptedAtMs }) => acceptedAtMs > closedAtMs).length
    if (late > 0) world.violations.push(`${late} claims were accepted after the pause had reached every gate`)
    const atPause = flood.told.length
    await world.command('resume')
    flood.hurry()
    await flood.finish()
    return { told_at_pause: atPause, paused: flood.codes['PAUSED'] ?? 0 }
  },
}

export const compensatorRestarted: Drill = {
  name: 'compensator-restarted',
  about: 'the core killed while it returns the stock of cancelled claims: each is returned once (IS6, IS12)',
  async run(world) {
    const { stack, sql } = world
    const core = stack.part('core')
    await world.open(500, { quota: 400, inFlight: 'cancel' })
    const flood = world.startFlood({ atOnce: 32, everyMs: 10 })
    await world.untilTold(30)
    // The drain waits for the lock; a pause with `cancel` then rejects all that waits.
    await sql.begin(async (tx) => {
      await tx`SELECT 1 FROM campaign_stock WHERE campaign_id = ${world.campaignId} FOR UPDATE`
      await world.untilTold(flood.told.length + 100)
      await world.command('pause')
    })
    const debts = async (open: boolean) => {
      const [row] = await sql`
        SELECT count(*)::int AS n FROM compensations
        WHERE campaign_id = ${world.campaignId} AND (${!open} OR state <> 'CLOSED')`
      return Number(row!['n'])
    }
    await until(async () => (await debts(false)) > 0, 'nothing was cancelled', 20_000, 5)
    world.fault('core killed')
    await core.kill()
    const openAtKill = await debts(true)
    await core.start()
    await until(async () => (await debts(true)) === 0, 'debts stay open', 20_000, 50)
    await world.command('resume')
    await flood.finish()
    return { cancelled: await debts(false), open_at_kill: openAtKill }
  },
}
