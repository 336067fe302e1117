import { join } from 'node:path'
import { until } from '../../stack/process.ts'
import { runCommand } from '../../stack/run-command.ts'
import type { Drill } from './drill.ts'
import type { World } from './world.ts'

/** Reconciliation finds that the stock identity does not hold (A4 §15.3). */

/** Coupons that nobody gave the gate. */
const planted = 7
const root = join(import.meta.dirname, '..', '..')

async function withheldMetric(world: World): Promise<number> {
  const text = await (await fetch(`${world.stack.endpoints.core}/metrics`)).text()
  return Number(/^tidegate_leases_withheld\{reason="identity_broken"\} (\d+)$/m.exec(text)?.[1] ?? 0)
}

/** An operator's rebuild, by the operator's command. */
async function rebuildByHand(world: World): Promise<void> {
  const { stack, campaignId } = world
  const token = await stack.mintLogin({ user: 'drill-operator', role: 'operator' })
  const what = ['rebuild', '--campaign', campaignId, '--reason', 'drill: the gate had more than it was given']
  const who = ['--core', stack.endpoints.core, '--token', token, '--json']
  const { code, output } = await runCommand(process.execPath, [join(root, 'core/ops.ts'), ...what, ...who])
  if (code !== 0) throw new Error(`the rebuild failed (${code}): ${output.slice(0, 300)}`)
}

export const identityOff: Drill = {
  name: 'identity-off',
  about:
    'a gate has 7 coupons that nobody gave it: found, no lease any more, alarm; an operator’s rebuild opens it again',
  async run(world) {
    await world.open(900, { quota: 850 })
    // Few at a time: there must be stock left when it is found.
    const flood = world.startFlood({ atOnce: 4, everyMs: 200 })
    await world.untilTold(20)
    const gate = `tg:{${world.campaignId}:0}:gate`
    await world.withRedis(async (redis) => void (await redis.hincrby(gate, 'remaining', planted)))
    world.fault(`${planted} coupons planted in the gate`)
    const began = performance.now()
    await until(async () => (await withheldMetric(world)) > 0, 'no alarm', 40_000, 200)
    const foundMs = Math.round(performance.now() - began)
    const busy = flood.codes['BUSY'] ?? 0
    await until(() => (flood.codes['BUSY'] ?? 0) > busy + 5, 'the gate goes on accepting', 15_000)
    world.fault('an operator rebuilds the gate')
    await rebuildByHand(world)
    await world.untilLeased()
    flood.hurry()
    await flood.finish()
    if ((await withheldMetric(world)) > 0) world.violations.push('the alarm stays')
    return { found_ms: foundMs }
  },
}
