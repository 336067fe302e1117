import { startFaultProxy } from '../../stack/faultProxy.ts'
import type { Drill } from './drill.ts'

/** Deaths of the core. */

export const coreKilled: Drill = {
  name: 'core-killed',
  about: 'the core killed three times between the commit of a batch and its acknowledgement: no coupon twice',
  async run(world) {
    const { stack } = world
    const core = stack.part('core')
    const proxy = await startFaultProxy(Number(new URL(stack.endpoints.postgres).port))
    try {
      await core.restart({ DATABASE_URL: proxy.url(stack.endpoints.postgres) })
      await world.open(400, { quota: 300 })
      const flood = world.startFlood()
      for (let kills = 0; kills < 3; kills++) {
        await world.untilTold(20 + 40 * kills)
        await proxy.holdAnswer(/commit/i, () => core.kill())
        await core.start()
      }
      await flood.finish()
      return { kills: 3 }
    } finally {
      await core.restart({ DATABASE_URL: stack.endpoints.postgres })
      await proxy.close()
    }
  },
}
